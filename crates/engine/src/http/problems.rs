//! What a valid plan may ask of HTTP and this engine does not do.

use causeway_ir::http::{Filter, HeaderChange, Http, HttpAction, HttpRoute, list_path};
use causeway_ir::{Terminate, Then};

/// Fields that tell how a message is read: whoever changes them makes two messages of one.
const OWN: [&str; 9] = [
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

/// What of a route is not executed, with the path below it.
pub(crate) fn in_route(route: &HttpRoute) -> impl Iterator<Item = (String, &'static str)> {
    let targets = match &route.action {
        HttpAction::Forward(targets) => targets.as_slice(),
        HttpAction::Redirect(_) | HttpAction::Respond(_) => &[],
    };
    let of_targets = targets.iter().enumerate().flat_map(|(t, target)| {
        let found = in_filters(&target.filters);
        found.map(move |(below, message)| (format!("action.forward[{t}].{below}"), message))
    });
    in_filters(&route.filters).chain(of_targets)
}

fn in_filters(filters: &[Filter]) -> impl Iterator<Item = (String, &'static str)> {
    filters.iter().enumerate().filter_map(|(f, filter)| {
        let (below, message) = match filter {
            Filter::RequestHeaders(change) if changes_own(change) => ("requestHeaders", OWN_MESSAGE),
            Filter::ResponseHeaders(change) if changes_own(change) => ("responseHeaders", OWN_MESSAGE),
            _ => return None,
        };
        Some((format!("filters[{f}].{below}"), message))
    })
}

/// What of the ways of requests is not executed.
pub(crate) fn in_http(http: &Http) -> impl Iterator<Item = (String, &'static str)> {
    http.lists().flat_map(|(site, routes)| {
        routes.iter().enumerate().flat_map(move |(r, route)| {
            in_route(route).map(move |(below, why)| (format!("{}[{r}].{below}", list_path(site)), why))
        })
    })
}

const OWN_MESSAGE: &str = "this engine writes Host, Connection, Content-Length and their like by itself: leave them out, and \
                           change the host with `rewrite`";

fn changes_own(change: &HeaderChange) -> bool {
    let named = change.set.iter().chain(&change.add).map(|header| &header.name).chain(&change.remove);
    named.map(causeway_ir::http::HeaderName::as_str).any(|name| OWN.contains(&name))
}

/// What of the end of TLS is not executed.
pub(crate) fn in_terminate(terminate: &Terminate) -> Vec<(String, &'static str)> {
    match &terminate.then {
        Then::Tcp(_) => Vec::new(),
        Then::Http(http) => in_http(http).map(|(below, why)| (format!("then.http.{below}"), why)).collect(),
    }
}
