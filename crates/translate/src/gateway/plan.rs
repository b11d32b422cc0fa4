//! The plan of one Gateway: a listener for each of its ports, the clusters that routes lead to, and what both need. The same
//! input gives the same plan, in the same order.

mod http;
mod tls;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use causeway_ir::http::{ErrorPage, Filter, HttpAction, HttpRoute};
use causeway_ir::{
    self as ir, Action, ConnectionRoute, HealthCheck, HealthCheckKind, Name, OnRemoval, Plan, Protocol,
    Refusal, Target, Targets,
};

use super::backends::Backends;
use super::listeners::{Bound, Family};
use super::own::Own;
use super::picture::{BackendPort, Bundle, Certificate, Port};
use super::routes::Route;
use super::traffic::TrafficPolicies;
use crate::endpoints;
use crate::naming::name;

/// How long an endpoint rests that failed while others stand by: until checks have told whether it is there.
const UNTIL_CHECKED: Duration = Duration::from_secs(20);

/// The plan of a Gateway, and what it needs.
#[derive(Default)]
pub(super) struct Built {
    pub(super) plan: Plan,
    pub(super) backends: BTreeMap<Name, BackendPort>,
    pub(super) certificates: BTreeMap<Name, Certificate>,
    pub(super) authorities: BTreeMap<Name, Bundle>,
    pub(super) ports: Vec<Port>,
    /// Routes that others are served before, by listener and route, with words.
    pub(super) lost: HashMap<(usize, usize), String>,
}

/// What is gathered while a plan is made.
pub(super) struct Builder<'p, 'a> {
    own: &'p Own<'a>,
    routes: &'p [Route<'a>],
    traffic: &'p TrafficPolicies<'a>,
    used: BTreeSet<Name>,
    /// Pages that somebody says.
    pages: BTreeSet<Name>,
    /// Clusters whose failure others wait for.
    watched: BTreeSet<Name>,
    certificates: BTreeMap<Name, Certificate>,
    authorities: BTreeMap<Name, Bundle>,
    lost: HashMap<(usize, usize), String>,
}

/// Makes the plan of a Gateway.
pub(super) fn build<'a>(
    own: &Own<'a>,
    routes: &[Route<'a>],
    backends: &Backends<'_>,
    traffic: &TrafficPolicies<'a>,
) -> Built {
    let mut builder = Builder {
        own,
        routes,
        traffic,
        used: BTreeSet::new(),
        pages: BTreeSet::new(),
        watched: BTreeSet::new(),
        certificates: BTreeMap::new(),
        authorities: BTreeMap::new(),
        lost: HashMap::new(),
    };
    let mut ports: BTreeMap<Port, Vec<usize>> = BTreeMap::new();
    for (place, listener) in own.listeners.iter().enumerate().filter(|(_, listener)| holds_port(listener)) {
        let Some(protocol) = listener.protocol else { continue };
        let carried = match protocol.family() {
            Family::Udp => endpoints::Protocol::Udp,
            _ => endpoints::Protocol::Tcp,
        };
        ports.entry(Port { protocol: carried, number: listener.spec.port }).or_default().push(place);
    }
    let mut listeners = Vec::new();
    for (port, places) in &ports {
        if let Some(protocol) = builder.port(places) {
            listeners.push(ir::Listener {
                name: name(&format!("{}/{}", protocol.word().to_ascii_lowercase(), port.number)),
                bind: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port.number),
                allowed_sources: Vec::new(),
                port: None,
                accept_proxy_protocol: None,
                protocol,
            });
        }
    }
    let is_accepted = |places: &[usize]| places.iter().any(|place| own.listeners[*place].accepted.holds);
    let ports = ports.into_iter().filter(|(_, places)| is_accepted(places)).map(|(port, _)| port).collect();
    builder.finish(listeners, ports, backends)
}

/// Whether a listener has its port and host, though it may not serve there. One without an authority for its clients keeps
/// others from serving its host without one.
fn holds_port(listener: &Bound<'_>) -> bool {
    listener.accepted.holds || listener.accepted.reason == "NoValidCACertificate"
}

impl Builder<'_, '_> {
    /// What a port does; none if it has nothing to do.
    fn port(&mut self, places: &[usize]) -> Option<Protocol> {
        let first = *places.first()?;
        match self.own.listeners[first].protocol?.family() {
            Family::Http => Some(Protocol::Http(self.clear_http(places))),
            Family::Tls => self.tls(places).map(Protocol::Tls),
            Family::Tcp => self.connections(first).map(Protocol::Tcp),
            Family::Udp => self.connections(first).map(Protocol::Udp),
        }
    }

    /// The way of all connections or datagrams of a listener: that of the oldest route.
    fn connections(&mut self, listener: usize) -> Option<ConnectionRoute> {
        let own = self.own;
        let (first, rest) = own.attached[listener].split_first()?;
        let route = &self.routes[first.route];
        for attached in rest {
            let message = format!("{} is older and has all connections", route.label());
            self.lost.insert((listener, attached.route), message);
        }
        let action = self.forward(&route.rules.connections.open, Refusal::Close);
        Some(ConnectionRoute {
            name: self.route_name(listener, first.route, None),
            connection_limit: None,
            action,
        })
    }

    /// Forwards to these targets, or refuses if none has a share.
    fn forward(&mut self, targets: &[Target], refusal: Refusal) -> Action {
        match Targets::new(targets.to_vec()) {
            Some(targets) => {
                self.used.extend(targets.as_slice().iter().map(|target| target.cluster.clone()));
                Action::Forward(targets)
            }
            None => Action::Refuse(refusal),
        }
    }

    /// The name of a route at a listener, in the plan and so in logs and metrics.
    fn route_name(&self, listener: usize, route: usize, rule: Option<&str>) -> Name {
        let route = &self.routes[route];
        let rule = rule.map(|rule| format!("#{rule}")).unwrap_or_default();
        name(&format!("{}/{}{rule}@{}", route.kind, route.meta.at, self.own.listeners[listener].label))
    }

    fn use_pages(&mut self, said: &[ErrorPage]) {
        self.pages.extend(said.iter().map(|said| said.page.clone()));
    }

    /// Notes what a route names.
    fn use_of(&mut self, route: &HttpRoute) {
        self.use_pages(&route.policies.error_pages);
        if let HttpAction::Forward(targets) = &route.action {
            let targets = targets.as_slice();
            self.used.extend(targets.iter().map(|target| target.cluster.clone()));
            if targets.iter().any(|target| target.priority > 0) {
                self.watched.extend(targets.iter().map(|target| target.cluster.clone()));
            }
        }
        for filter in &route.filters {
            if let Filter::Mirror(mirror) = filter {
                self.used.insert(mirror.cluster.clone());
            }
        }
    }

    /// How long streams may go on when a pod ends.
    fn drain_timeout(&self) -> Duration {
        let asked = self.own.parameters.as_ref().ok().and_then(|parameters| parameters.drain_seconds);
        asked.map_or(Plan::default().drain_timeout, |seconds| Duration::from_secs(seconds.into()))
    }

    fn finish(mut self, listeners: Vec<ir::Listener>, ports: Vec<Port>, backends: &Backends<'_>) -> Built {
        let certificate = self.own.certificate.as_ref().and_then(|found| found.as_ref().ok());
        let mut clusters = Vec::with_capacity(self.used.len());
        let mut behind = BTreeMap::new();
        for used in std::mem::take(&mut self.used) {
            let Some(mut made) = backends.cluster(&used, certificate.map(|(name, _)| name)) else { continue };
            // Who stands by is waited for by requests: the first failure counts, and it is asked who is back.
            if self.watched.contains(&used) {
                made.cluster.ejection.consecutive_failures = 1;
                made.cluster.ejection.time = UNTIL_CHECKED;
                made.cluster.health_check = Some(HealthCheck::new(HealthCheckKind::Tcp));
            }
            if let Some(backend) = made.backend {
                behind.insert(used, backend);
            }
            if let Some(tls) = made.tls {
                if let Some((name, bundle)) = &tls.authorities {
                    self.authorities.insert(name.clone(), bundle.clone());
                }
                if let Some((name, found)) = certificate {
                    self.certificates.insert(name.clone(), found.clone());
                }
            }
            clusters.push(made.cluster);
        }
        Built {
            plan: Plan {
                listeners,
                clusters,
                pages: self.traffic.pages(&self.pages),
                drain_timeout: self.drain_timeout(),
                // Whoever edits a route does not know whose WebSockets are on it.
                on_removal: OnRemoval::Keep,
                ..Plan::default()
            },
            backends: behind,
            certificates: self.certificates,
            authorities: self.authorities,
            ports,
            lost: self.lost,
        }
    }
}
