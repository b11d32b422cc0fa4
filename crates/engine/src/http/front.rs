//! The front door without a house: bytes of a client in, requests as they would go on out. For tests and fuzzers, who
//! have to see that one request in is one request out, or none.

mod streams;

use std::sync::Arc;

use causeway_ir::Name;

use super::decision::{self, Client, Decision};
use super::h1::HEAD;
use super::h1::chunked;
use super::h1::framing::{Body, Framing};
use super::h1::scan::Scan;
use super::route::Route;
use super::router::Router;
use crate::cluster::{Cluster, SettingsPool};
use crate::metrics::Metrics;
use crate::table::{self, Destination, RouteShared};

/// What becomes of the bytes of a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Each request as an endpoint would get it.
    pub requests: Vec<Vec<u8>>,
    /// The route of each.
    pub routes: Vec<Arc<str>>,
    /// The status of what was refused, which is the last that is looked at.
    pub refused: Option<u16>,
    /// Bytes that wait for more; streams, of a client that speaks HTTP/2.
    pub waiting: usize,
}

/// The front door and what is behind it.
pub struct Front {
    router: Router<Arc<Route>>,
    client: Client,
}

impl Front {
    /// With a route for every request.
    pub fn everything() -> Self {
        Self::new(Router::everything(route("all")))
    }

    /// With these routes, in JSON as a plan has them.
    ///
    /// # Panics
    /// If they are no routes.
    pub fn by(routes: &str) -> Self {
        let routes = serde_json::from_str(routes).expect("routes");
        let make = |of: &causeway_ir::http::HttpRoute| Some(route(of.name.as_str()));
        Self::new(Router::compile(&routes, None, |_| None, make).expect("routes that can be followed"))
    }

    fn new(router: Router<Arc<Route>>) -> Self {
        let address = std::net::SocketAddr::from(([192, 0, 2, 1], 1));
        Self { router, client: Client::new(address, causeway_ir::http::Scheme::Http, 80, &[]) }
    }

    /// Takes all that a client says.
    ///
    /// # Panics
    /// Never: that is what it is here to show.
    pub fn pass(&self, bytes: &[u8]) -> Passed {
        lines(self, bytes)
    }

    /// The same of a client that speaks HTTP/2, to endpoints that speak HTTP/1.1.
    ///
    /// # Panics
    /// Never, as above.
    pub fn pass_streams(&self, bytes: &[u8]) -> Passed {
        streams::pass(self, bytes)
    }
}

/// Takes all that a client says, with a route for everything.
///
/// # Panics
/// Never: that is what it is here to show.
pub fn pass(bytes: &[u8]) -> Passed {
    Front::everything().pass(bytes)
}

fn lines(front: &Front, mut bytes: &[u8]) -> Passed {
    let mut passed = Passed::default();
    let mut index = Vec::new();
    while !bytes.is_empty() {
        bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
        if bytes == b"\r" {
            break;
        }
        let mut out = Vec::new();
        let length = match Scan::default().end(bytes, HEAD) {
            Ok(Some(length)) => length,
            Ok(None) => break,
            Err(fault) => {
                passed.refused = Some(fault.status);
                return passed;
            }
        };
        let decided =
            decision::decide(&bytes[..length], &mut index, &front.router, &front.client, None, &mut out);
        let forward = match decided {
            Decision::Forward(forward) => forward,
            // A question about the server as a whole.
            Decision::Answered { status: 204, keep_alive: true, .. } => {
                bytes = &bytes[length..];
                continue;
            }
            Decision::Answered { status, .. } => {
                passed.refused = Some(status);
                return passed;
            }
        };
        let Some((body, rest)) = body(&bytes[length..], forward.framing) else {
            passed.refused = Some(400);
            return passed;
        };
        let Some(body) = body else { break };
        out.extend_from_slice(&body);
        passed.requests.push(out);
        passed.routes.push(Arc::clone(&forward.route.base.name));
        bytes = rest;
        if !forward.ending.keep_alive || forward.upgrades {
            return passed;
        }
    }
    passed.waiting = bytes.len();
    passed
}

/// A body as it goes on, if it is complete, and what follows it; nothing if it is none.
fn body(mut bytes: &[u8], framing: Framing) -> Option<(Option<Vec<u8>>, &[u8])> {
    let mut body = Body::new(framing);
    let mut out = Vec::new();
    while !body.is_done() {
        let (count, data) = body.take(bytes).ok()?;
        if count == 0 {
            return Some((None, bytes));
        }
        if framing == Framing::Chunked && !data.is_empty() {
            chunked::write_size(&mut out, data.len());
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(data);
        }
        bytes = &bytes[count..];
    }
    if framing == Framing::Chunked {
        out.extend_from_slice(chunked::LAST);
    }
    Some((Some(out), bytes))
}

/// A route of this name.
fn route(name: &str) -> Arc<Route> {
    let name: Arc<str> = name.into();
    let shared = Arc::new(RouteShared::new(Metrics::default().closes(&name, &name)));
    let cluster = causeway_ir::Cluster::new(Name::parse("all").expect("it is a name"), Vec::new());
    let cluster = Arc::new(Cluster::new(&cluster, &mut SettingsPool::default()));
    let base =
        Arc::new(table::Route { name, destination: Destination::Cluster(cluster), limit: None, shared });
    Arc::new(Route::forwarding(base))
}
