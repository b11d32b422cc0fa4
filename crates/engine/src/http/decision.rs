//! What becomes of a request, decided from its head alone. Without IO: all that is needed later is written down, and the
//! buffer with the head is free again.

use std::net::SocketAddr;
use std::sync::Arc;

use causeway_ir::http::Scheme;

use super::answer::{self, Arrival, Ending};
use super::cors::Cors;
use super::fault::Fault;
use super::h1::Version;
use super::h1::fields::Field;
use super::h1::framing::Framing;
use super::h1::request::Request;
use super::onward;
use super::route::{Does, Route};
use super::router::{Asked, Router};

/// What is known of the client with all of its requests.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) arrival: Arrival,
    introduction: Box<[u8]>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, scheme: Scheme, port: u16) -> Self {
        let introduction = onward::introduction(address, scheme);
        Self { address, arrival: Arrival { scheme, port }, introduction }
    }
}

/// What the log says of a request.
pub(crate) struct Seen {
    pub(crate) method: Box<str>,
    pub(crate) host: Box<str>,
    pub(crate) path: Box<str>,
}

/// What becomes of a request.
pub(crate) enum Decision {
    /// It was answered: what was written goes to the client.
    Answered { status: u16, route: Option<Arc<Route>>, keep_alive: bool },
    /// It goes on: what was written goes to an endpoint.
    Forward(Forward),
}

/// A request that goes on.
pub(crate) struct Forward {
    pub(crate) route: Arc<Route>,
    pub(crate) framing: Framing,
    /// Of the answer.
    pub(crate) ending: Ending,
    pub(crate) expects_continue: bool,
    /// It may be sent again if nothing was heard of it.
    pub(crate) is_idempotent: bool,
    pub(crate) upgrades: bool,
    /// Lines for the answer that depend on the request.
    pub(crate) grant: Vec<u8>,
}

/// Decides on a complete head and writes an answer, or the request as it goes on, to `out`. `seen` is for the log.
pub(crate) fn decide(
    head: &[u8],
    index: &mut Vec<Field>,
    router: &Router<Arc<Route>>,
    client: &Client,
    seen: Option<&mut Option<Seen>>,
    out: &mut Vec<u8>,
) -> Decision {
    let request = match Request::parse(head, index) {
        Ok(request) => request,
        Err(fault) => {
            refuse(out, fault);
            return Decision::Answered { status: fault.status, route: None, keep_alive: false };
        }
    };
    if let Some(seen) = seen {
        *seen = Some(Seen {
            method: request.method.into(),
            host: request.target.host.as_ref().into(),
            path: request.target.path.as_ref().into(),
        });
    }
    let mut ending = Ending {
        version: request.version,
        keep_alive: request.keep_alive,
        to_head: request.method == "HEAD",
    };
    let asked = Asked {
        method: request.method,
        host: &request.target.host,
        path: &request.target.path,
        query: request.target.query,
        fields: request.fields,
    };
    let found = if request.target.path == "*" { None } else { router.find(&asked) };
    let cors = found.as_ref().and_then(|found| found.to.cors.as_ref());
    if let (Some(found), Some(cors)) = (&found, cors)
        && Cors::is_question(request.method, request.fields)
    {
        ending.keep_alive &= matches!(request.framing, Framing::None | Framing::Length(0));
        answer::write_status(out, 204, b"No Content");
        cors.write_permission(out, request.fields);
        ending.write(out);
        let route = Some(Arc::clone(found.to));
        return Decision::Answered { status: 204, route, keep_alive: ending.keep_alive };
    }
    if let Some(found) = &found
        && matches!(found.to.does, Does::Forward)
    {
        let mut grant = Vec::new();
        if let Some(cors) = cors {
            cors.write_grant(&mut grant, request.fields);
        }
        onward::write_request(out, &request, found.to, found.prefix, &client.introduction);
        return Decision::Forward(Forward {
            route: Arc::clone(found.to),
            framing: request.framing,
            ending,
            expects_continue: request.expects_continue,
            is_idempotent: request.is_idempotent(),
            upgrades: request.upgrade.is_some(),
            grant,
        });
    }
    // A body that nobody wants is not waited for.
    ending.keep_alive &= matches!(request.framing, Framing::None | Framing::Length(0));
    let status = match &found {
        // A question about the server as a whole.
        None if request.target.path == "*" => {
            answer::write_plain(out, 204, ending);
            204
        }
        None => {
            answer::write_plain(out, 404, ending);
            404
        }
        Some(found) => match &found.to.does {
            Does::Redirect(redirect) => {
                let (target, arrival) = (&request.target, client.arrival);
                answer::write_redirect(out, redirect, target, found.prefix, arrival, ending);
                redirect.status.into()
            }
            Does::Respond(fixed) => {
                fixed.write(out, ending);
                fixed.status
            }
            Does::Forward => 500,
        },
    };
    Decision::Answered {
        status,
        route: found.map(|found| Arc::clone(found.to)),
        keep_alive: ending.keep_alive,
    }
}

/// Writes the answer to something that is no proper request; no other one follows it.
pub(crate) fn refuse(out: &mut Vec<u8>, fault: Fault) {
    tracing::debug!(status = fault.status, why = fault.why, "a request was refused");
    let ending = Ending { version: Version::Http11, keep_alive: false, to_head: false };
    answer::write_plain(out, fault.status, ending);
}
