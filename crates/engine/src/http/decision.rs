//! What becomes of a request, decided from its head alone. Without IO: all that is needed later is written down, and the
//! buffer with the head is free again.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use causeway_ir::http::Scheme;
use http::HeaderMap;

use super::answer::{self, Arrival, Ending};
use super::cors::Cors;
use super::fault::Fault;
use super::forwarded::Told;
use super::h1::Version;
use super::h1::fields::Field;
use super::h1::framing::Framing;
use super::h1::request::Request;
use super::h2::as_is::Asked as AskedAsIs;
use super::introduction::{Introducing, Introduction};
use super::onward;
use super::pages::write_error;
use super::route::{Does, Route, Target, can_rewrite};
use super::router::{Asked, Found, Missed, Router, ToldOn};
use crate::clock;
use crate::cluster::{Cluster, Endpoint};
use crate::spans::{Spans, TRACEPARENT, Trace};
use crate::worker::Shared;

/// What is known of the client with all of its requests.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) arrival: Arrival,
    introduction: Introduction,
    /// The same as fields, once one of its requests goes on so.
    introducing: OnceCell<Option<Introducing>>,
    /// What endpoints hear of its certificate.
    certificate: Box<[u8]>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, scheme: Scheme, port: u16, certificate: &[u8]) -> Self {
        let arrival = Arrival { scheme, port };
        let introduction = Introduction::new(address, arrival, None, certificate);
        let introducing = OnceCell::new();
        Self { address, arrival, introduction, introducing, certificate: certificate.into() }
    }

    /// Adds what endpoints hear of it to the fields of a request that names this host, if that has such a form.
    pub(crate) fn introduce(&self, fields: &mut HeaderMap, authority: &str) -> Option<()> {
        let introducing = self.introducing.get_or_init(|| Introducing::new(&self.introduction));
        introducing.as_ref()?.put(fields, authority)
    }

    /// What endpoints hear of it with a request that trusted proxies have sent on, if they have.
    pub(super) fn introduction(&self, told: Option<&Told>) -> Cow<'_, Introduction> {
        if told.is_none() {
            return Cow::Borrowed(&self.introduction);
        }
        Cow::Owned(Introduction::new(self.address, self.arrival, told, &self.certificate))
    }
}

/// What the log and spans say of a request.
pub(crate) struct Seen {
    pub(crate) method: Box<str>,
    pub(crate) host: Box<str>,
    pub(crate) path: Box<str>,
    /// The client, if a trusted proxy told of it.
    pub(crate) forwarded_for: Option<IpAddr>,
    /// As the client sees it.
    pub(crate) scheme: Scheme,
    /// Where its span stands, if there will be one.
    pub(crate) trace: Option<Trace>,
}

/// Where it is written down what a request is.
pub(crate) struct Notes<'a> {
    pub(crate) seen: &'a mut Option<Seen>,
    pub(crate) spans: Option<&'a Spans>,
}

impl<'a> Notes<'a> {
    /// None if nobody would read them.
    pub(crate) fn wanted(shared: &'a Shared, seen: &'a mut Option<Seen>) -> Option<Self> {
        let spans = shared.spans.as_ref();
        (shared.access_log.is_on() || spans.is_some()).then_some(Self { seen, spans })
    }
}

/// What becomes of a request.
pub(crate) enum Decision {
    /// It was answered: what was written goes to the client.
    Answered { status: u16, route: Option<Arc<Route>>, keep_alive: bool },
    /// It goes on: what was written goes to an endpoint. That is nothing for a tunnel.
    Forward(Forward),
}

/// A request that goes on.
pub(crate) struct Forward {
    pub(crate) route: Arc<Route>,
    /// The place of its target among those of the route.
    pub(crate) target: usize,
    /// The host that the endpoint sees, if that is the name which its certificate must have.
    pub(crate) server_name: Option<Box<str>>,
    /// Whose request it is.
    pub(crate) client: IpAddr,
    /// The endpoint that the client stays with, if it can be used.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    pub(crate) framing: Framing,
    /// Of the answer.
    pub(crate) ending: Ending,
    pub(crate) expects_continue: bool,
    /// It may be sent again if nothing was heard of it.
    pub(crate) is_idempotent: bool,
    pub(crate) upgrades: bool,
    /// It asks for a stream of bytes to the endpoint, which never sees the request.
    pub(crate) connects: bool,
    /// The client takes what comes after a body.
    pub(crate) trailers: bool,
    /// Lines for the answer that depend on the request.
    pub(crate) grant: Vec<u8>,
    /// How the client stays with an endpoint, if it does.
    session: Option<Stay>,
    /// Nothing that is said here changes its head, but that endpoints may hear from us who the client is.
    pub(crate) unchanged: Option<Introduced>,
    /// Its head as it came, for the first attempt by HTTP/2, if it may go on so.
    pub(crate) as_is: Cell<Option<Box<AskedAsIs>>>,
}

/// Whether endpoints hear from us who a client is, or from its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Introduced {
    Here,
    Already,
}

/// How a client stays with an endpoint.
struct Stay {
    /// Lines for the answer of the endpoint that it has had.
    lines: Vec<u8>,
    /// For that of any other.
    scheme: Scheme,
    /// Since 1970.
    seconds: u32,
}

impl Forward {
    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// Whether an answer with these lines for the session goes back with the fields that it came with.
    pub(crate) fn leaves_answers(&self, session: &[u8]) -> bool {
        session.is_empty()
            && self.grant.is_empty()
            && self.route.cors.is_none()
            && self.target().changes().leave_answers()
    }

    /// Where it goes, and what is changed on the way.
    pub(crate) fn target(&self) -> &Target {
        &self.route.targets[self.target]
    }

    /// Lines for the answer of this endpoint, with which the client stays there.
    pub(crate) fn session_with<'f>(&'f self, cluster: &Cluster, endpoint: &Arc<Endpoint>) -> Cow<'f, [u8]> {
        let (Some(stay), Some(persistence)) = (&self.session, &self.route.policies().persistence) else {
            return Cow::Borrowed(&[]);
        };
        if self.endpoint.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, endpoint)) {
            return Cow::Borrowed(&stay.lines);
        }
        Cow::Owned(persistence.begin(&cluster.name, endpoint, stay.scheme, stay.seconds))
    }

    /// Whether so much of its body may go on.
    ///
    /// # Errors
    /// If it is more than the route takes.
    pub(crate) fn may_carry(&self, bytes: u64) -> Result<(), Fault> {
        match self.route.policies().body_limit {
            Some(limit) if bytes > limit => Err(Fault::new(413, "the body is longer than the route takes")),
            _ => Ok(()),
        }
    }
}

/// The target of a request, the endpoint that its client stays with, and what the client hears of that there.
fn choose(found: &Found<'_, Arc<Route>>, request: &Request<'_>, scheme: Scheme) -> Option<Chosen> {
    let route = found.to;
    let now = clock::woken();
    let Some(persistence) = &route.policies().persistence else {
        return Some(Chosen { target: route.pick(now)?, endpoint: None, session: None });
    };
    let seconds = u32::try_from(jiff::Timestamp::now().as_second()).unwrap_or(u32::MAX);
    if let Some(stays) = persistence.stays(&route.targets, request.fields, scheme, seconds) {
        let session = Some(Stay { lines: stays.lines, scheme, seconds });
        return Some(Chosen { target: stays.target, endpoint: Some(stays.endpoint), session });
    }
    let session = Some(Stay { lines: Vec::new(), scheme, seconds });
    Some(Chosen { target: route.pick(now)?, endpoint: None, session })
}

struct Chosen {
    target: usize,
    endpoint: Option<Arc<Endpoint>>,
    session: Option<Stay>,
}

/// Decides on a complete head and writes an answer, or the request as it goes on, to `out`.
pub(crate) fn decide(
    head: &[u8],
    index: &mut Vec<Field>,
    router: &Router<Arc<Route>>,
    client: &Client,
    notes: Option<Notes<'_>>,
    out: &mut Vec<u8>,
) -> Decision {
    let request = match Request::parse(head, index) {
        Ok(request) => request,
        Err(fault) => {
            refuse(out, fault);
            return Decision::Answered { status: fault.status, route: None, keep_alive: false };
        }
    };
    decide_on(&request, router, client, notes, out)
}

/// The same for a head that was read.
pub(crate) fn decide_on(
    request: &Request<'_>,
    router: &Router<Arc<Route>>,
    client: &Client,
    notes: Option<Notes<'_>>,
    out: &mut Vec<u8>,
) -> Decision {
    let told = router.trusted().and_then(|trusted| trusted.told(client.address.ip(), request.fields));
    let arrival = told.as_ref().map_or(client.arrival, |told| told.arrival(client.arrival));
    let mut trace = None;
    if let Some(Notes { seen, spans }) = notes {
        trace = spans.and_then(|spans| spans.begin(request.fields.get(TRACEPARENT).as_deref()));
        *seen = Some(Seen {
            method: request.method.into(),
            host: request.target.host.as_ref().into(),
            path: request.target.path.as_ref().into(),
            forwarded_for: told.as_ref().and_then(|told| told.client),
            scheme: arrival.scheme,
            trace,
        });
    }
    let mut ending = Ending {
        version: request.version,
        keep_alive: request.keep_alive,
        to_head: request.method == "HEAD",
    };
    let introduction = (!router.is_transparent()).then(|| client.introduction(told.as_ref()));
    let asked = Asked {
        method: request.method,
        host: &request.target.host,
        path: &request.target.path,
        query: request.target.query,
        fields: request.fields,
        told: introduction
            .as_deref()
            .map(|introduction| ToldOn { introduction, authority: request.target.authority }),
    };
    // A question about the server as a whole has no route.
    let sought = if request.target.path == "*" { Err(Missed::Nothing) } else { router.find(&asked) };
    let (found, missed) = match sought {
        Ok(found) => (Some(found), 404),
        Err(missed) => (None, missed.status()),
    };
    if request.connects() && !found.as_ref().is_some_and(|found| found.to.policies().connect) {
        let fault = Fault::new(405, "no tunnels are made here");
        refuse(out, fault);
        return Decision::Answered { status: fault.status, route: None, keep_alive: false };
    }
    let source = told.as_ref().and_then(|told| told.client).unwrap_or_else(|| client.address.ip());
    let is_known = told.as_ref().is_none_or(|told| told.client.is_some());
    let has_body = !matches!(request.framing, Framing::None | Framing::Length(0));
    if let Some(found) = &found {
        let policies = found.to.policies();
        let refused = policies.refusal(&found.to.base.shared, (source, is_known), request.framing);
        if let Some(refused) = refused {
            ending.keep_alive &= !has_body;
            write_error(out, refused.status, policies.pages.as_deref(), &refused.lines, ending);
            let route = Some(Arc::clone(found.to));
            return Decision::Answered { status: refused.status, route, keep_alive: ending.keep_alive };
        }
    }
    let cors = found.as_ref().and_then(|found| found.to.cors.as_deref());
    if let (Some(found), Some(cors)) = (&found, cors)
        && Cors::is_question(request.method, request.fields)
    {
        ending.keep_alive &= !has_body;
        answer::write_status(out, 204, b"No Content");
        cors.write_permission(out, request.fields);
        ending.write(out);
        let route = Some(Arc::clone(found.to));
        return Decision::Answered { status: 204, route, keep_alive: ending.keep_alive };
    }
    if let Some(found) = &found
        && let Some(Chosen { target: place, endpoint, session }) = choose(found, request, arrival.scheme)
    {
        let target = &found.to.targets[place];
        let changes = target.changes();
        if !request.connects() && !can_rewrite(&request.target.path, changes.path.as_ref()) {
            let fault = Fault::bad("the path can't be rewritten to a path");
            refuse(out, fault);
            let route = Some(Arc::clone(found.to));
            return Decision::Answered { status: fault.status, route, keep_alive: false };
        }
        let mut grant = Vec::new();
        if let Some(cors) = cors {
            cors.write_grant(&mut grant, request.fields);
        }
        if !request.connects() {
            onward::write_request(
                out,
                request,
                changes,
                found.prefix,
                introduction.as_deref(),
                trace.as_ref(),
            );
        }
        let is_unchanged = told.is_none() && trace.is_none() && changes.leave_requests();
        let introduced = if introduction.is_some() { Introduced::Here } else { Introduced::Already };
        let host = || changes.host.as_deref().unwrap_or(&request.target.host);
        return Decision::Forward(Forward {
            route: Arc::clone(found.to),
            target: place,
            server_name: target.cluster.is_named_by_request().then(|| host().into()),
            client: source,
            endpoint,
            framing: request.framing,
            ending,
            expects_continue: request.expects_continue,
            is_idempotent: request.is_idempotent(),
            upgrades: request.upgrade.is_some(),
            connects: request.connects(),
            trailers: request.takes_trailers(),
            grant,
            session,
            unchanged: is_unchanged.then_some(introduced),
            as_is: Cell::new(None),
        });
    }
    // A body that nobody wants is not waited for.
    ending.keep_alive &= !has_body;
    let status = match &found {
        // A question about the server as a whole.
        None if request.target.path == "*" => {
            answer::write_plain(out, 204, ending);
            204
        }
        None => {
            write_error(out, missed, router.pages(), &[], ending);
            missed
        }
        Some(found) => match &found.to.does {
            Does::Redirect(redirect) => {
                answer::write_redirect(out, redirect, &request.target, found.prefix, arrival, ending);
                redirect.status.into()
            }
            Does::Respond(fixed) => {
                fixed.write(out, ending);
                fixed.status
            }
            // Nothing has a share, which no plan says.
            Does::Forward => {
                answer::write_plain(out, 500, ending);
                500
            }
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
