//! What requests and calls look like, in the words of a plan.

use causeway_ir::http::{
    HeaderMatch, HeaderName, Method, Path, PathMatch, QueryMatch, Regex, RequestMatch, ValueMatch,
};

use super::budget::Budget;
use crate::gateway::kinds;

/// Whether the path of a match is a prefix, which it is where it is left out.
pub(super) fn is_prefix(written: &kinds::HttpMatch) -> bool {
    written.path.as_ref().is_none_or(|path| matches!(path.kind.as_deref(), None | Some("PathPrefix")))
}

/// A match of an HTTPRoute.
pub(super) fn http(written: &kinds::HttpMatch, budget: &mut Budget) -> Result<RequestMatch, String> {
    let path = written.path.as_ref().map(|written| path(written, budget)).transpose()?;
    let method = written.method.as_deref().map(Method::parse).transpose()?;
    let mut query: Vec<QueryMatch> = Vec::new();
    for parameter in &written.query_params {
        // Of several for one name the first counts.
        if query.iter().all(|before| before.name != parameter.name) {
            query.push(QueryMatch {
                name: parameter.name.clone(),
                value: value("queryParams", parameter, budget)?,
            });
        }
    }
    Ok(RequestMatch { path, headers: headers(&written.headers, budget)?, query, method })
}

/// A match of a GRPCRoute.
pub(super) fn grpc(written: &kinds::GrpcMatch, budget: &mut Budget) -> Result<RequestMatch, String> {
    let path = written.method.as_ref().map(|written| call(written, budget)).transpose()?.flatten();
    Ok(RequestMatch { path, headers: headers(&written.headers, budget)?, ..RequestMatch::default() })
}

fn path(written: &kinds::PathMatch, budget: &mut Budget) -> Result<PathMatch, String> {
    let value = written.value.as_deref().unwrap_or("/");
    match written.kind.as_deref() {
        Some("Exact") => Path::parse(value).map(PathMatch::Exact),
        None | Some("PathPrefix") => Path::parse(value).map(PathMatch::Prefix),
        Some("RegularExpression") => budget.regex(value).map(PathMatch::Regex),
        Some(other) => Err(format!(
            "a path of type {other} is not known here: write Exact, PathPrefix or RegularExpression"
        )),
    }
}

fn headers(written: &[kinds::HeaderMatch], budget: &mut Budget) -> Result<Vec<HeaderMatch>, String> {
    let mut made: Vec<HeaderMatch> = Vec::new();
    for header in written {
        let name = HeaderName::parse(&header.name)?;
        if made.iter().all(|before| before.name != name) {
            made.push(HeaderMatch { name, value: value("headers", header, budget)? });
        }
    }
    Ok(made)
}

fn value(field: &str, written: &kinds::HeaderMatch, budget: &mut Budget) -> Result<ValueMatch, String> {
    match written.kind.as_deref() {
        None | Some("Exact") => Ok(ValueMatch::Exact(written.value.clone())),
        Some("RegularExpression") => budget.regex(&written.value).map(ValueMatch::Regex),
        Some(other) => {
            Err(format!("{field} of type {other} are not known here: write Exact or RegularExpression"))
        }
    }
}

/// The paths of a call; none for every call.
fn call(written: &kinds::GrpcMethod, budget: &mut Budget) -> Result<Option<PathMatch>, String> {
    let part = |part: &Option<String>| part.clone().filter(|part| !part.is_empty());
    let (service, method) = (part(&written.service), part(&written.method));
    match (written.kind.as_deref(), service, method) {
        (_, None, None) => Ok(None),
        (None | Some("Exact"), Some(service), Some(method)) => {
            Path::parse(&format!("/{service}/{method}")).map(PathMatch::Exact).map(Some)
        }
        (None | Some("Exact"), Some(service), None) => {
            Path::parse(&format!("/{service}")).map(PathMatch::Prefix).map(Some)
        }
        (None | Some("Exact"), None, Some(method)) => {
            if !method.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(format!("`{method}` is not a method: write letters, digits and _"));
            }
            Path::parse(&format!("/{method}")).map(PathMatch::Call).map(Some)
        }
        (Some("RegularExpression"), service, method) => {
            let any = || "[^/]+".to_owned();
            // Each must be whole in itself: `a)|(b` would be something else between parentheses.
            for expression in service.iter().chain(&method) {
                Regex::parse(expression)?;
            }
            let (service, method) = (service.unwrap_or_else(any), method.unwrap_or_else(any));
            budget.regex(&format!("/(?:{service})/(?:{method})")).map(PathMatch::Regex).map(Some)
        }
        (Some(other), ..) => {
            Err(format!("a method of type {other} is not known here: write Exact or RegularExpression"))
        }
    }
}
