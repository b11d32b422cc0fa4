//! The listeners of a Gateway, its own and those of its ListenerSets: which are accepted, which lost a conflict, what each
//! may take and what it shows to clients. Listeners have their say in the order of the specification: the Gateway's own
//! first, then those of the oldest ListenerSet; who comes later and wants what is taken loses.

mod conflicts;
mod overlaps;
mod sets;
mod tls;

use causeway_ir::tls::ClientCertificateMode;
use causeway_ir::{Name, Pattern};

use super::hosts;
use super::kinds::{GROUP, Gateway, Listener, RouteKind};
use super::picture::{Bundle, Certificate};
use super::secrets::Lookup;
use crate::grants::Users;
use crate::references::Verdict;

pub(super) use sets::{Set, namespace_is_chosen, parent_of, sets_of};

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Https,
    TlsTerminate,
    TlsPassthrough,
    Tcp,
    Udp,
}

/// What listeners of one port have in common: only those can share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Http,
    Tls,
    Tcp,
    Udp,
}

impl Protocol {
    pub(super) fn family(self) -> Family {
        match self {
            Self::Http => Family::Http,
            Self::Https | Self::TlsTerminate | Self::TlsPassthrough => Family::Tls,
            Self::Tcp => Family::Tcp,
            Self::Udp => Family::Udp,
        }
    }

    /// Whether TLS ends here.
    pub(super) fn terminates(self) -> bool {
        matches!(self, Self::Https | Self::TlsTerminate)
    }

    fn kinds(self) -> &'static [RouteKind] {
        match self {
            Self::Http | Self::Https => &[RouteKind::Http, RouteKind::Grpc],
            Self::TlsTerminate | Self::TlsPassthrough => &[RouteKind::Tls],
            Self::Tcp => &[RouteKind::Tcp],
            Self::Udp => &[RouteKind::Udp],
        }
    }
}

/// A listener of a Gateway.
pub(super) struct Bound<'a> {
    /// The set that it is from, by its place; none for the Gateway's own.
    pub(super) set: Option<usize>,
    /// The namespace of who wrote it.
    pub(super) namespace: &'a str,
    /// As it is written.
    pub(super) spec: &'a Listener,
    /// Its name in a plan: unique in the Gateway.
    pub(super) label: String,
    /// What it speaks, if that is known.
    pub(super) protocol: Option<Protocol>,
    /// The host that it is for.
    pub(super) host: Option<Pattern>,
    /// The kinds of routes that may attach.
    pub(super) kinds: Vec<RouteKind>,
    /// Whether it is accepted.
    pub(super) accepted: Verdict,
    /// Whether it lost a conflict.
    pub(super) conflicted: Verdict,
    /// Another one that has some of its hosts, by its place, where clients may take one for the other.
    pub(super) overlaps: Option<usize>,
    /// Whether everything that it names is there.
    pub(super) resolved: Verdict,
    /// The certificates that it shows.
    pub(super) certificates: Vec<(Name, Certificate)>,
    /// That clients refuse one of them, or soon will.
    pub(super) ageing: Option<Verdict>,
    /// What it asks of clients' certificates.
    pub(super) clients: Option<Clients>,
}

/// What is asked of clients' certificates.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) name: Name,
    pub(super) bundle: Bundle,
    pub(super) mode: ClientCertificateMode,
}

impl Bound<'_> {
    /// Whether it has all that it needs to serve.
    pub(super) fn serves(&self) -> bool {
        let has_certificate =
            !self.protocol.is_some_and(Protocol::terminates) || !self.certificates.is_empty();
        self.accepted.holds && has_certificate
    }
}

/// The listeners of a Gateway and of those sets that it allows, in the order of precedence.
pub(super) fn listeners<'a>(gateway: &'a Gateway, sets: &[Set<'a>], lookup: &Lookup<'a>) -> Vec<Bound<'a>> {
    let own = Users { group: GROUP, kind: "Gateway", namespace: &gateway.meta.at.namespace };
    let mut bound: Vec<Bound<'a>> = Vec::new();
    for spec in &gateway.spec.listeners {
        bound.push(bind(spec, own, None, spec.name.clone(), lookup));
    }
    for (place, set) in sets.iter().enumerate().filter(|(_, set)| set.allowed.holds) {
        let at = &set.object.meta.at;
        let users = Users { group: GROUP, kind: "ListenerSet", namespace: &at.namespace };
        for spec in &set.object.spec.listeners {
            let label = format!("{at}/{}", spec.name);
            bound.push(bind(spec, users, Some(place), label, lookup));
        }
    }
    conflicts::settle(&mut bound);
    overlaps::mark(&mut bound);
    tls::ask_clients(&mut bound, gateway, own, lookup);
    bound
}

fn bind<'a>(
    spec: &'a Listener,
    users: Users<'a>,
    set: Option<usize>,
    label: String,
    lookup: &Lookup<'_>,
) -> Bound<'a> {
    let protocol = protocol(spec);
    let host = hosts::parse(spec.host());
    let accepted = accepted(spec, protocol.as_ref(), host.as_ref());
    let protocol = protocol.ok();
    let (kinds, kinds_verdict) = kinds(spec, protocol);
    let mut bound = Bound {
        set,
        namespace: users.namespace,
        spec,
        label,
        protocol,
        host: host.ok().flatten(),
        kinds,
        accepted,
        conflicted: Verdict::no("NoConflicts", "nobody else wants the same port and host"),
        overlaps: None,
        resolved: kinds_verdict.unwrap_or_else(|| Verdict::yes("ResolvedRefs", "all references are good")),
        certificates: Vec::new(),
        ageing: None,
        clients: None,
    };
    if protocol.is_some_and(Protocol::terminates) {
        tls::find_certificates(&mut bound, users, lookup);
    }
    bound
}

/// What a listener speaks, or the reason and the words why that is nothing of ours.
fn protocol(spec: &Listener) -> Result<Protocol, Verdict> {
    let mode = spec.tls.as_ref().and_then(|tls| tls.mode.as_deref()).unwrap_or("Terminate");
    match (spec.protocol.as_str(), mode) {
        ("HTTP", _) => Ok(Protocol::Http),
        ("TCP", _) => Ok(Protocol::Tcp),
        ("UDP", _) => Ok(Protocol::Udp),
        ("HTTPS", "Terminate") => Ok(Protocol::Https),
        ("TLS", "Terminate") => Ok(Protocol::TlsTerminate),
        ("TLS", "Passthrough") => Ok(Protocol::TlsPassthrough),
        ("HTTPS" | "TLS", mode) => Err(Verdict::no(
            "UnsupportedValue",
            format!("tls.mode {mode} is not for {}: write Terminate, or Passthrough with TLS", spec.protocol),
        )),
        (other, _) => Err(Verdict::no(
            "UnsupportedProtocol",
            format!("protocol {other} is not known here: write HTTP, HTTPS, TLS, TCP or UDP"),
        )),
    }
}

fn accepted(
    spec: &Listener,
    protocol: Result<&Protocol, &Verdict>,
    host: Result<&Option<Pattern>, &String>,
) -> Verdict {
    if let Err(verdict) = protocol {
        return verdict.clone();
    }
    if let Err(why) = host {
        return Verdict::no("UnsupportedValue", format!("hostname: {why}"));
    }
    if spec.port == 0 {
        return Verdict::no("PortUnavailable", "port 0 can't be listened on: write 1 to 65535");
    }
    // To pass what a filter would have stopped is worse than to serve nothing.
    if !spec.filters.is_empty() {
        return Verdict::no(
            "UnsupportedValue",
            "filters of listeners are not known here: put them in routes",
        );
    }
    Verdict::yes("Accepted", "the listener makes sense")
}

/// The kinds of routes that may attach, and what is wrong with those that are asked for.
fn kinds(spec: &Listener, protocol: Option<Protocol>) -> (Vec<RouteKind>, Option<Verdict>) {
    let possible = protocol.map(Protocol::kinds).unwrap_or_default();
    let asked = spec.allowed_routes.as_ref().map(|allowed| allowed.kinds.as_slice()).unwrap_or_default();
    if asked.is_empty() || protocol.is_none() {
        return (possible.to_vec(), None);
    }
    let mut kinds = Vec::new();
    let mut unknown = Vec::new();
    for kind in asked {
        let found = possible.iter().find(|possible| {
            kind.kind == possible.as_str() && kind.group.as_deref().unwrap_or(GROUP) == GROUP
        });
        match found {
            Some(found) if !kinds.contains(found) => kinds.push(*found),
            Some(_) => {}
            None => unknown.push(kind.kind.as_str()),
        }
    }
    if unknown.is_empty() {
        return (kinds, None);
    }
    let possible: Vec<_> = possible.iter().map(|kind| kind.as_str()).collect();
    let message = format!(
        "allowedRoutes.kinds names {}, which can't attach to {}: it takes {}",
        unknown.join(", "),
        spec.protocol,
        possible.join(", ")
    );
    (kinds, Some(Verdict::no("InvalidRouteKinds", message)))
}
