//! What a carrier runs: for each port, what is taken goes to workstations, and the rest, and what they don't answer, to the
//! original pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_ir::http::{
    Filter, Http, HttpAction, HttpRoute, HttpTarget, HttpTargets, Mirror, Policies, RequestMatch, Response,
    Retry, Timeouts,
};
use causeway_ir::tls::UpstreamTls;
use causeway_ir::{
    self as ir, Action, CertificateRef, Cluster, ConnectionRoute, Ejection, Endpoint, HttpVersion, Limit,
    Listener, Name, OnRemoval, Pattern, Period, Plan, Policy, SubjectName, Target, Targets, Transport,
};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::health::Health;
use super::layout::{Layout, LayoutPort};
use super::names::{self, Delivery};
use super::rules::Rules;
use super::target::Port;
use super::world::World;
use crate::endpoints::{self, Protocol};
use crate::gateway::kinds::ObjectRef;
use crate::naming::name;

/// A session of datagrams, or a connection to a workstation, that says nothing ends.
const UDP_IDLE: Period = Period::from_secs(60);
/// Long-lived connections stay, as they do with a Service.
const TCP_IDLE: Period = Period::from_secs(24 * 3600);
/// What a workstation may take to be connected to, its program included, and what a pod may.
const CONNECT: Period = Period::from_secs(2);
/// How long a pod of the cluster's end that could not reach the workstation is left alone.
const REST: Duration = Duration::from_secs(1);

/// How often a request is sent again that was lost and that can be asked twice.
const ATTEMPTS: Limit = Limit::new(2).expect("not 0");

/// What one request takes.
#[derive(Debug, Clone)]
pub(super) struct Taking {
    pub(super) request: ObjectRef,
    pub(super) uid: String,
    /// The labels of the target's pods.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) port: Port,
    pub(super) rules: Rules,
    pub(super) mirror: bool,
    pub(super) fallback: bool,
    /// Health checks that stay with the original.
    pub(super) health: Option<Health>,
    pub(super) workstation: String,
    pub(super) address: Option<IpAddr>,
    pub(super) destination: u16,
    /// The pod of the cluster's end that has the workstation.
    pub(super) replica: Option<String>,
}

impl Taking {
    fn delivery(&self, protocol: Protocol) -> Delivery {
        Delivery {
            workstation: self.workstation.clone(),
            address: self.address,
            port: self.destination,
            datagrams: protocol == Protocol::Udp,
        }
    }
}

/// A carrier's plan in the making.
pub(super) struct Draft<'a> {
    pub(super) world: &'a World,
    pub(super) takings: &'a [(Taking, Vec<usize>)],
    pub(super) layout: &'a Layout,
}

/// A way with what comes after it, if it can't be gone.
type Ways = Vec<(Name, u32)>;

impl Draft<'_> {
    /// In front of a Service whose original pods are in these slices, and behind the Service of this address.
    pub(super) fn of_service(
        &self,
        service: &Service,
        slices: &[Arc<EndpointSlice>],
        twin: Option<IpAddr>,
    ) -> (Plan, BTreeSet<Delivery>) {
        let mut making = Making::default();
        let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let mut seen = BTreeSet::new();
        for ((place, port), at) in ports.enumerate().zip(&self.layout.ports) {
            // Two ports of a Service may lead to one of its pods.
            if !seen.insert((at.protocol, at.number)) {
                continue;
            }
            let mut originals = vec![making.original(service, port, at, slices)];
            originals.extend(twin.and_then(|twin| making.by_service(twin, port, at)));
            let takings: Vec<&Taking> =
                self.takings
                    .iter()
                    .filter(|(taking, places)| {
                        let same = |place: &usize| {
                            self.layout.ports.get(*place).is_some_and(|other| {
                                (other.protocol, other.number) == (at.protocol, at.number)
                            })
                        };
                        (places.contains(&place) || places.iter().any(same))
                            && taking.port.protocols.contains(&at.protocol)
                    })
                    .map(|(taking, _)| taking)
                    .collect();
            let protocol = self.protocol(&mut making, at.protocol, &takings, &originals);
            making.listen(at, protocol);
        }
        making.done()
    }

    /// In the place of a container.
    pub(super) fn of_container(&self) -> (Plan, BTreeSet<Delivery>) {
        let mut making = Making::default();
        for at in &self.layout.ports {
            let takings: Vec<&Taking> = self
                .takings
                .iter()
                .map(|(taking, _)| taking)
                .filter(|taking| {
                    taking.port.number == at.number && taking.port.protocols.contains(&at.protocol)
                })
                .collect();
            let protocol = self.protocol(&mut making, at.protocol, &takings, &[]);
            making.listen(at, protocol);
        }
        making.done()
    }

    /// What is looked at on a port, and where it goes.
    fn protocol(
        &self,
        making: &mut Making,
        carries: Protocol,
        takings: &[&Taking],
        originals: &[Name],
    ) -> ir::Protocol {
        if carries == Protocol::Udp {
            // Nothing in datagrams says whose they are: rules and copies are of requests.
            let all = takings.iter().find(|taking| taking.rules.compiled.is_empty() && !taking.mirror);
            let ways = self.ways(making, all.copied(), originals, carries);
            return ir::Protocol::Udp(connections(&ways));
        }
        let looks = takings.iter().any(|taking| {
            let is_http = taking.health.as_ref().is_some_and(|health| health.is_http);
            !taking.rules.compiled.is_empty() || taking.mirror || is_http
        });
        let all = takings.iter().find(|taking| taking.rules.compiled.is_empty() && !taking.mirror);
        let rest = self.ways(making, all.copied(), originals, carries);
        if !looks || originals.is_empty() {
            return ir::Protocol::Tcp(connections(&rest));
        }
        let mut routes = Vec::new();
        for taking in takings {
            self.requests(making, taking, originals, &mut routes);
        }
        if all.is_none() {
            let copied = takings.iter().any(|taking| taking.rules.compiled.is_empty());
            if !copied {
                routes.push(requests("original", Vec::new(), forward(&rest)));
            }
        }
        let otherwise = Some(connections(&rest));
        // Whoever is in front of the target has told it who asks; the carrier has nothing to add.
        ir::Protocol::Http(Http { routes, otherwise, transparent: true, ..Http::default() })
    }

    /// The routes of a request that looks into requests: health checks first, then what it takes.
    fn requests(
        &self,
        making: &mut Making,
        taking: &Taking,
        originals: &[Name],
        routes: &mut Vec<HttpRoute>,
    ) {
        let entries = &taking.rules.compiled;
        let original: Ways = one_after_another(originals, 0).collect();
        if let Some(health) = &taking.health {
            let checks: Vec<RequestMatch> = if entries.is_empty() {
                health.among(None)
            } else {
                entries.iter().flat_map(|entry| health.among(Some(entry))).collect()
            };
            if !checks.is_empty() {
                let label = format!("health checks beside {}", taking.request);
                routes.push(requests(&label, checks, forward(&original)));
            }
        }
        let label = taking.request.to_string();
        if taking.mirror {
            let (here, elsewhere) = making.workstation(self.world, taking, Protocol::Tcp);
            let copied = if taking.replica.is_some() { here } else { elsewhere };
            let mut route = requests(&label, entries.clone(), forward(&original));
            let all = 100_000;
            route.filters.push(Filter::Mirror(Mirror { cluster: copied, per_hundred_thousand: all }));
            routes.push(route);
            return;
        }
        let ways = self.ways(making, Some(taking), originals, Protocol::Tcp);
        routes.push(requests(&label, entries.clone(), forward(&ways)));
    }

    /// To the workstation of a request, and from there to the original; or to the original at once.
    fn ways(
        &self,
        making: &mut Making,
        taking: Option<&Taking>,
        originals: &[Name],
        protocol: Protocol,
    ) -> Ways {
        let Some(taking) = taking else { return one_after_another(originals, 0).collect() };
        let (here, elsewhere) = making.workstation(self.world, taking, protocol);
        let mut ways = vec![(here, 0), (elsewhere, 1)];
        if taking.fallback {
            ways.extend(one_after_another(originals, 2));
        }
        ways
    }
}

/// Ways to the original, the best first.
fn one_after_another(originals: &[Name], first: u32) -> impl Iterator<Item = (Name, u32)> {
    originals.iter().cloned().zip(first..)
}

#[derive(Default)]
struct Making {
    listeners: Vec<Listener>,
    clusters: BTreeMap<Name, Cluster>,
    deliveries: BTreeSet<Delivery>,
}

impl Making {
    /// The original pods behind a port of the Service.
    fn original(
        &mut self,
        service: &Service,
        port: &ServicePort,
        at: &LayoutPort,
        slices: &[Arc<EndpointSlice>],
    ) -> Name {
        let found = endpoints::behind_port(service, port, slices.iter().map(|slice| &**slice));
        let mut cluster =
            Cluster::new(name(&format!("original {} {}", at.protocol.as_str(), at.number)), found);
        let affinity = service.spec.as_ref().and_then(|spec| spec.session_affinity.as_deref());
        if affinity == Some("ClientIP") {
            cluster.policy = Policy::SourceHash;
        }
        cluster.idle_timeout = if at.protocol == Protocol::Udp { UDP_IDLE } else { TCP_IDLE };
        cluster.connect_timeout = CONNECT;
        // Readiness alone decides, as with the Service itself; a failed connect is still tried elsewhere.
        cluster.ejection = Ejection { consecutive_failures: 0, consecutive_resets: 0, ..Ejection::default() };
        cluster.http_version = HttpVersion::Same;
        self.keep(cluster)
    }

    /// The same pods by a Service of theirs, for when all that are known of are gone: the cluster leads to others though nobody tells
    /// the carrier of them at the moment.
    fn by_service(&mut self, twin: IpAddr, port: &ServicePort, at: &LayoutPort) -> Option<Name> {
        let number = u16::try_from(port.port).ok().filter(|_| at.protocol == Protocol::Tcp)?;
        let endpoint = Endpoint::new(SocketAddr::new(twin, number));
        let label = format!("original {} {} by its Service", at.protocol.as_str(), at.number);
        let mut cluster = Cluster::new(name(&label), vec![endpoint]);
        cluster.connect_timeout = CONNECT;
        cluster.idle_timeout = TCP_IDLE;
        cluster.ejection = Ejection { consecutive_failures: 0, consecutive_resets: 0, ..Ejection::default() };
        cluster.http_version = HttpVersion::Same;
        Some(self.keep(cluster))
    }

    /// A workstation by way of the pod that has it, and by way of the others, should it have moved.
    fn workstation(&mut self, world: &World, taking: &Taking, protocol: Protocol) -> (Name, Name) {
        let delivery = taking.delivery(protocol);
        let server_name = delivery.to_string();
        let mut way = |label: &str, is_here: bool| {
            let pods = world.stowaways.iter();
            let pods = pods.filter(|pod| (taking.replica.as_ref() == Some(&pod.name)) == is_here);
            let found = pods.map(|pod| Endpoint::new(SocketAddr::new(pod.address, names::CARRIER_PORT)));
            let mut cluster =
                Cluster::new(name(&format!("workstation {server_name}{label}")), found.collect());
            cluster.transport = Transport::Tls(UpstreamTls {
                server_name: Some(name(&server_name)),
                subject_names: Pattern::parse(names::STOWAWAY_CERTIFICATE)
                    .map(SubjectName::Host)
                    .into_iter()
                    .collect(),
                authorities: Some(CertificateRef(name(names::AUTHORITY_KEY))),
                certificate: Some(CertificateRef(name(names::CARRIER_KEY))),
                confirms: true,
            });
            cluster.connect_timeout = CONNECT;
            cluster.idle_timeout = if protocol == Protocol::Udp { UDP_IDLE } else { TCP_IDLE };
            cluster.ejection = Ejection { consecutive_failures: 1, consecutive_resets: 0, time: REST };
            cluster.http_version = HttpVersion::Same;
            self.keep(cluster)
        };
        let ways = (way("", true), way(" elsewhere", false));
        self.deliveries.insert(delivery);
        ways
    }

    fn keep(&mut self, cluster: Cluster) -> Name {
        let name = cluster.name.clone();
        self.clusters.entry(name.clone()).or_insert(cluster);
        name
    }

    fn listen(&mut self, at: &LayoutPort, protocol: ir::Protocol) {
        self.listeners.push(Listener {
            name: name(&format!("{} {}", at.protocol.as_str(), at.number)),
            // The pod knows its address.
            bind: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.number),
            allowed_sources: Vec::new(),
            port: None,
            accept_proxy_protocol: None,
            protocol,
        });
    }

    fn done(self) -> (Plan, BTreeSet<Delivery>) {
        let clusters = self.clusters.into_values().collect();
        // Whoever edits a request, or ends one of several, does not know whose streams are on the routes that go with it. Those that
        // lead to a workstation are ended by the cluster's end, whose grant goes with the request.
        let on_removal = OnRemoval::Keep;
        (Plan { listeners: self.listeners, clusters, on_removal, ..Plan::default() }, self.deliveries)
    }
}

fn connections(ways: &Ways) -> ConnectionRoute {
    let targets = ways.iter().map(|(cluster, priority)| Target {
        cluster: cluster.clone(),
        weight: 1,
        priority: *priority,
    });
    let action = Targets::new(targets.collect()).map_or(Action::Refuse(ir::Refusal::Close), Action::Forward);
    ConnectionRoute { name: name("all"), connection_limit: None, action }
}

fn forward(ways: &Ways) -> HttpAction {
    let targets = ways.iter().map(|(cluster, priority)| HttpTarget {
        cluster: cluster.clone(),
        weight: 1,
        priority: *priority,
        filters: Vec::new(),
    });
    let nobody = Response { status: 503, headers: Vec::new(), body: String::new() };
    HttpTargets::new(targets.collect()).map_or(HttpAction::Respond(nobody), HttpAction::Forward)
}

fn requests(label: &str, matches: Vec<RequestMatch>, action: HttpAction) -> HttpRoute {
    HttpRoute {
        name: name(label),
        hosts: Vec::new(),
        matches,
        filters: Vec::new(),
        timeouts: Timeouts::default(),
        // A pod that goes, or a machine that dies, may take a request with it: what can be asked twice is.
        retry: Some(Retry { attempts: ATTEMPTS, statuses: Vec::new(), backoff: None }),
        policies: Policies::default(),
        action,
    }
}
