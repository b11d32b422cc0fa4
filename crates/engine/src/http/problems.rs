//! What a valid plan may ask of HTTP and this engine does not do.

use causeway_ir::http::{Filter, HeaderChange, Http, HttpRoute};
use causeway_ir::{Action, Cluster, HttpVersion, Listener, Plan, Protocol, Terminate, Then};

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
pub(crate) fn in_routes(route: &HttpRoute) -> impl Iterator<Item = (String, &'static str)> {
    route.filters.iter().enumerate().filter_map(|(f, filter)| {
        let (below, message) = match filter {
            Filter::RequestHeaders(change) if changes_own(change) => ("requestHeaders", OWN_MESSAGE),
            Filter::ResponseHeaders(change) if changes_own(change) => ("responseHeaders", OWN_MESSAGE),
            _ => return None,
        };
        Some((format!("filters[{f}].{below}"), message))
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
    let mut found = Vec::new();
    if terminate.client_certificates.is_some() {
        found.push(("clientCertificates".to_owned(), "this engine does not ask for client certificates yet"));
    }
    match &terminate.then {
        Then::Tcp(_) => found.push((
            "then.tcp".to_owned(),
            "this engine looks at nothing but requests inside of TLS yet: write `http`, or forward the TLS as it is",
        )),
        Then::Http(http) => {
            for (r, route) in http.routes.iter().enumerate() {
                let of_route = in_routes(route);
                found.extend(of_route.map(|(below, why)| (format!("then.http.routes[{r}].{below}"), why)));
            }
        }
    }
    found
}

/// The requests that a listener looks at.
fn requests(listener: &Listener) -> impl Iterator<Item = &Http> {
    let inside = listener.actions().filter_map(|(_, action)| match action {
        Action::Terminate(terminate) => match &terminate.then {
            Then::Http(http) => Some(http),
            Then::Tcp(_) => None,
        },
        _ => None,
    });
    let clear = match &listener.protocol {
        Protocol::Http(http) => Some(http),
        _ => None,
    };
    clear.into_iter().chain(inside)
}

/// The clusters that requests are forwarded to and that speak what this engine does not.
pub(crate) fn in_clusters(plan: &Plan) -> Vec<(usize, &'static str)> {
    const HTTP2: &str = "this engine does not speak HTTP/2 to endpoints yet: write \"1.1\"";
    let foreign = |cluster: &Cluster| cluster.http_version == HttpVersion::Http2;
    if !plan.clusters.iter().any(foreign) {
        return Vec::new();
    }
    let forwarded: std::collections::HashSet<&str> = plan
        .listeners
        .iter()
        .flat_map(requests)
        .flat_map(|http| http.targets().map(|(_, cluster)| cluster.as_str()))
        .collect();
    let foreign = plan.clusters.iter().enumerate().filter(|(_, cluster)| foreign(cluster));
    foreign
        .filter(|(_, cluster)| forwarded.contains(cluster.name.as_str()))
        .map(|(c, _)| (c, HTTP2))
        .collect()
}
