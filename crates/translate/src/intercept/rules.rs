//! The rules of a request in the words of a plan. Header names are the same in upper and lower case, a prefix is what a text
//! begins with, an expression matches somewhere in it.

use causeway_api::{HeaderMatch, HttpMatch, InterceptRequestSpec, MatchType, PathMatch};
use causeway_ir::Problem;
use causeway_ir::http::{self, HeaderName, Method, Path, Regex, RequestMatch, ValueMatch};

/// Which requests are taken.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rules {
    /// As they are written; none for all traffic.
    pub(super) written: Vec<HttpMatch>,
    /// In the words of a plan.
    pub(super) compiled: Vec<RequestMatch>,
}

/// Compiles the rules of a request, or says what is wrong with them.
pub(super) fn compile(spec: &InterceptRequestSpec) -> Result<Rules, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut compiled = Vec::with_capacity(spec.matches.len());
    for (index, written) in spec.matches.iter().enumerate() {
        compiled.extend(entry(written, &format!("spec.match[{index}]"), &mut problems));
    }
    if let Some(address) = spec.destination_ip.as_deref()
        && address.parse::<std::net::IpAddr>().is_err()
    {
        let message = format!("`{address}` is not an address");
        problems.push(Problem { path: "spec.destinationIP".to_owned(), message });
    }
    if problems.is_empty() { Ok(Rules { written: spec.matches.clone(), compiled }) } else { Err(problems) }
}

fn entry(written: &HttpMatch, path: &str, problems: &mut Vec<Problem>) -> Option<RequestMatch> {
    let before = problems.len();
    let mut keep = |path: String, message: String| problems.push(Problem { path, message });
    let mut headers = Vec::with_capacity(written.headers.len());
    for (index, header) in written.headers.iter().enumerate() {
        match self::header(header) {
            Ok(header) => headers.push(header),
            Err((field, message)) => keep(format!("{path}.headers[{index}].{field}"), message),
        }
    }
    let of_path = written.path.as_ref().and_then(|asked| {
        let found = self::path(asked);
        found.map_err(|message| keep(format!("{path}.path.value"), message)).ok()
    });
    let method = written.method.as_ref().and_then(|method| {
        let text = serde_json::to_value(method).ok()?;
        let found = Method::parse(text.as_str()?);
        found.map_err(|message| keep(format!("{path}.method"), message)).ok()
    });
    if headers.is_empty() && of_path.is_none() && method.is_none() && problems.len() == before {
        let message = "write at least one of headers, path and method, or leave match out".to_owned();
        problems.push(Problem { path: path.to_owned(), message });
    }
    (problems.len() == before).then_some(RequestMatch { path: of_path, headers, query: Vec::new(), method })
}

fn header(written: &HeaderMatch) -> Result<http::HeaderMatch, (&'static str, String)> {
    let name = HeaderName::parse(&written.name).map_err(|message| ("name", message))?;
    let value = match written.kind {
        MatchType::Exact => Ok(ValueMatch::Exact(written.value.clone())),
        MatchType::Prefix => Regex::beginning_with(&written.value).map(ValueMatch::Regex),
        MatchType::Regex => Regex::within(&written.value).map(ValueMatch::Regex),
    };
    Ok(http::HeaderMatch { name, value: value.map_err(|message| ("value", message))? })
}

fn path(written: &PathMatch) -> Result<http::PathMatch, String> {
    let value = &written.value;
    if written.kind != MatchType::Regex
        && let Some(odd) = value.chars().find(|char| matches!(char, '?' | '#'))
    {
        return Err(format!(
            "`{value}` has a `{odd}`: a rule is about the path alone, without what follows it; write `{}`",
            value.split(['?', '#']).next().unwrap_or("/")
        ));
    }
    match written.kind {
        MatchType::Exact => match Path::parse(value) {
            Ok(path) => Ok(http::PathMatch::Exact(path)),
            // Whatever a client can ask for, it can be asked for here.
            Err(_) => Regex::of(value).map(http::PathMatch::Regex),
        },
        // The prefix of a plan ends at a slash.
        MatchType::Prefix => Regex::beginning_with(value).map(http::PathMatch::Regex),
        MatchType::Regex => Regex::within(value).map(http::PathMatch::Regex),
    }
}
