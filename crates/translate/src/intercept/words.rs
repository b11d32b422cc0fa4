//! What a request takes, in words for people: Events on the target say it.

use causeway_api::{HeaderMatch, HttpMatch, InterceptRequestSpec, MatchType};

use super::target::Port;

/// What a request takes.
pub(super) fn takes(spec: &InterceptRequestSpec, port: &Port) -> String {
    let name = port.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let what = match (spec.mirror, spec.matches.is_empty()) {
        (true, true) => "copies of all requests",
        (true, false) => "copies of requests",
        (false, true) => "all traffic",
        (false, false) => "requests",
    };
    let mut text = format!("{what} to port {}{name}", port.number);
    let entries: Vec<String> = spec.matches.iter().map(entry).collect();
    if !entries.is_empty() {
        text.push_str(" with ");
        text.push_str(&entries.join(", or with "));
    }
    text
}

fn entry(entry: &HttpMatch) -> String {
    let method = entry.method.map(|method| format!("method {}", format!("{method:?}").to_uppercase()));
    let path = entry.path.as_ref().map(|path| format!("path {} {}", compared(path.kind), path.value));
    let headers = entry.headers.iter().map(header);
    method.into_iter().chain(path).chain(headers).collect::<Vec<_>>().join(" and ")
}

fn header(header: &HeaderMatch) -> String {
    format!("header {} {} {}", header.name.to_ascii_lowercase(), compared(header.kind), header.value)
}

fn compared(kind: MatchType) -> &'static str {
    match kind {
        MatchType::Exact => "equal to",
        MatchType::Prefix => "beginning with",
        MatchType::Regex => "matching",
    }
}
