//! What is changed on the way, in the words of a plan.

use causeway_ir::Pattern;
use causeway_ir::http::{
    Cors, Filter, HeaderChange, HeaderName, HeaderValue, Method, Mirror, Path, PathRewrite, Redirect,
    RedirectStatus, Rewrite, Scheme,
};
use causeway_ir::{Name, Period};

use super::{Compiler, Problem, Rules, Use, count};
use crate::gateway::kinds;
use crate::naming::name;

/// Seconds that a browser may remember an answer where nothing is written.
const CORS_AGE: i64 = 5;
/// Headers that tell how a message is read, which only who sends it can write.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a filter of a route becomes.
pub(super) enum Step {
    Filter(Filter),
    Redirect(Redirect),
    /// A mirror to nowhere: the request itself goes its way.
    Nothing,
}

impl Compiler<'_> {
    /// A filter of a rule.
    pub(super) fn filter(
        &self,
        written: &kinds::Filter,
        by_prefix: bool,
        used: Use,
        rules: &mut Rules,
    ) -> Result<Step, Problem> {
        let kinds::Filter { request_mirror, request_redirect, cors, .. } = written;
        match (written.kind.as_str(), request_mirror, request_redirect, cors) {
            ("RequestMirror", Some(mirror), ..) => {
                let found = self.find(&mirror.backend_ref, used, rules);
                let per_hundred_thousand = share(mirror)?;
                if found.wrong.is_some() || per_hundred_thousand == 0 {
                    return Ok(Step::Nothing);
                }
                Ok(Step::Filter(Filter::Mirror(Mirror { cluster: found.cluster, per_hundred_thousand })))
            }
            ("RequestRedirect", _, Some(to), _) => redirect(to, by_prefix).map(Step::Redirect),
            ("CORS", .., Some(written)) => self::cors(written).map(|cors| Step::Filter(Filter::Cors(cors))),
            _ => everywhere(written, by_prefix).map(Step::Filter),
        }
    }
}

/// What is changed for one backend alone.
pub(super) fn of_backend(backend: &kinds::Backend, by_prefix: bool) -> Result<Vec<Filter>, Problem> {
    backend.filters.iter().map(|filter| everywhere(filter, by_prefix)).collect()
}

/// A filter that is the same for a rule and for one of its backends.
fn everywhere(written: &kinds::Filter, by_prefix: bool) -> Result<Filter, Problem> {
    let kinds::Filter { request_header_modifier, response_header_modifier, url_rewrite, .. } = written;
    match (written.kind.as_str(), request_header_modifier, response_header_modifier, url_rewrite) {
        ("RequestHeaderModifier", Some(change), ..) => headers(change).map(Filter::RequestHeaders),
        ("ResponseHeaderModifier", _, Some(change), _) => headers(change).map(Filter::ResponseHeaders),
        ("URLRewrite", .., Some(rewrite)) => Ok(Filter::Rewrite(Rewrite {
            host: rewrite.hostname.as_deref().map(host).transpose()?,
            path: rewrite.path.as_ref().map(|path| modifier(path, by_prefix)).transpose()?,
        })),
        ("ExtensionRef", ..) => {
            Err(Problem::unknown_kind("no filter of another kind is known here: leave the ExtensionRef out"))
        }
        (
            "RequestHeaderModifier"
            | "ResponseHeaderModifier"
            | "URLRewrite"
            | "RequestMirror"
            | "RequestRedirect"
            | "CORS",
            ..,
        ) => Err(Problem::unsupported(format!(
            "a filter of type {} is without its field, or not for a single backend",
            written.kind
        ))),
        (other, ..) => Err(Problem::unsupported(format!("a filter of type {other} is not known here"))),
    }
}

fn headers(written: &kinds::HeaderFilter) -> Result<HeaderChange, Problem> {
    let name = |text: &str| {
        let name = HeaderName::parse(text).map_err(Problem::unsupported)?;
        if FRAMING.contains(&name.as_str()) {
            return Err(Problem::unsupported(format!(
                "the header {name} is not a filter's to change: it tells how the message is read (to change the host, \
                 use URLRewrite)"
            )));
        }
        Ok(name)
    };
    let value = |header: &kinds::Header| {
        if header.value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
            let message = format!("the value of {} has control characters, which headers can't", header.name);
            return Err(Problem::unsupported(message));
        }
        Ok(HeaderValue { name: name(&header.name)?, value: header.value.clone() })
    };
    Ok(HeaderChange {
        set: written.set.iter().map(value).collect::<Result<_, _>>()?,
        add: written.add.iter().map(value).collect::<Result<_, _>>()?,
        remove: written.remove.iter().map(|text| name(text)).collect::<Result<_, _>>()?,
    })
}

/// How many of a hundred thousand requests are copied.
fn share(mirror: &kinds::Mirror) -> Result<u32, Problem> {
    let (part, whole) = match (mirror.percent, mirror.fraction) {
        (Some(percent), _) => (percent, 100),
        (None, Some(fraction)) => (fraction.numerator, fraction.denominator.unwrap_or(100)),
        (None, None) => (100, 100),
    };
    let shared = u32::try_from(part).ok().zip(u32::try_from(whole).ok());
    let Some((part, whole)) = shared.filter(|(part, whole)| *whole > 0 && part <= whole) else {
        return Err(Problem::unsupported(format!("{part} of {whole} requests can't be copied")));
    };
    Ok((u64::from(part) * 100_000 / u64::from(whole)) as u32)
}

fn redirect(written: &kinds::Redirect, by_prefix: bool) -> Result<Redirect, Problem> {
    let scheme = match written.scheme.as_deref() {
        None => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => {
            return Err(Problem::unsupported(format!(
                "the scheme {other} is not known here: write http or https"
            )));
        }
    };
    let status = match written.status_code {
        None => Ok(RedirectStatus::Found),
        Some(code) => u16::try_from(code)
            .map_err(|_| format!("{code} is no status of a redirect: write 301, 302, 303, 307 or 308"))
            .and_then(RedirectStatus::try_from),
    };
    Ok(Redirect {
        scheme,
        host: written.hostname.as_deref().map(host).transpose()?,
        port: written.port.filter(|port| *port > 0),
        path: written.path.as_ref().map(|path| modifier(path, by_prefix)).transpose()?,
        status: status.map_err(Problem::unsupported)?,
    })
}

/// A host that requests can be sent to.
fn host(text: &str) -> Result<Name, Problem> {
    match Pattern::parse(text) {
        Ok(Pattern::Exact(host)) => Ok(name(&host)),
        Ok(Pattern::Below(_)) => {
            Err(Problem::unsupported(format!("`{text}` is not one host: leave the * out")))
        }
        Err(why) => Err(Problem::unsupported(why)),
    }
}

fn modifier(written: &kinds::PathModifier, by_prefix: bool) -> Result<PathRewrite, Problem> {
    let path =
        |text: &str| Path::parse(if text.is_empty() { "/" } else { text }).map_err(Problem::unsupported);
    match (written.kind.as_str(), &written.replace_full_path, &written.replace_prefix_match) {
        ("ReplaceFullPath", Some(text), _) => path(text).map(PathRewrite::Full),
        ("ReplacePrefixMatch", _, Some(text)) if by_prefix => path(text).map(PathRewrite::Prefix),
        ("ReplacePrefixMatch", _, Some(_)) => {
            Err(Problem::unsupported("ReplacePrefixMatch needs matches of type PathPrefix and no others"))
        }
        (other, ..) => {
            Err(Problem::unsupported(format!("a path of type {other} can't be made of these fields")))
        }
    }
}

fn cors(written: &kinds::Cors) -> Result<Cors, Problem> {
    let headers =
        |texts: &[String]| texts.iter().map(|text| HeaderName::parse(text)).collect::<Result<_, _>>();
    let age = count("cors.maxAge", written.max_age.unwrap_or(CORS_AGE))?;
    Ok(Cors {
        allow_origins: written.allow_origins.clone(),
        allow_methods: written
            .allow_methods
            .iter()
            .map(|text| Method::parse(text))
            .collect::<Result<_, _>>()
            .map_err(Problem::unsupported)?,
        allow_headers: headers(&written.allow_headers).map_err(Problem::unsupported)?,
        expose_headers: headers(&written.expose_headers).map_err(Problem::unsupported)?,
        allow_credentials: written.allow_credentials.unwrap_or_default(),
        max_age: Period::new(std::time::Duration::from_secs(u64::from(age))),
    })
}
