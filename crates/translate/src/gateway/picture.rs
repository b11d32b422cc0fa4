//! What follows from a world: what every Gateway of ours runs and needs, and what is to be written in the status of every
//! object. Who controls makes it so and writes the statuses that changed; who runs a Gateway runs its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use causeway_api::GatewayParametersSpec;
use causeway_ir::{Name, Plan};
use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use super::certificates::{Authorities, KeyPair};
use super::kinds::{ObjectRef, RouteKind};
use super::world::Address;
use crate::endpoints::{self, PortRef, Protocol};
use crate::services::{ServiceRef, Services};

/// What follows from a world. Objects that are not ours are not in it: classes of other controllers, their Gateways, and
/// what refers to nothing of ours and never did.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// The status of each class of ours.
    pub classes: BTreeMap<String, Status>,
    /// Each Gateway of ours.
    pub gateways: BTreeMap<ObjectRef, GatewayPicture>,
    /// Gateways that are nobody's, since their class is not there: what runs for them stays as it is.
    pub nobodys: BTreeSet<ObjectRef>,
    /// The status of each ListenerSet of a Gateway of ours.
    pub listener_sets: BTreeMap<ObjectRef, Status>,
    /// The status of each route that refers to something of ours, or did.
    pub routes: BTreeMap<(RouteKind, ObjectRef), Status>,
    /// The status of each BackendTLSPolicy that a route of ours uses, or did.
    pub policies: BTreeMap<ObjectRef, Status>,
    /// The status of each TrafficPolicy.
    pub traffic_policies: BTreeMap<ObjectRef, Status>,
    /// The status of each GatewayParameters that a class or Gateway of ours refers to.
    pub parameters: BTreeMap<ObjectRef, Status>,
    /// What is referred to and may be used, there or not: what has to be watched.
    pub references: References,
}

/// The whole status of an object, foreign entries included, to replace the one that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// As it is to be written.
    pub value: Value,
    /// Whether that differs from what is there; else there is nothing to write.
    pub changed: bool,
}

/// Objects that are referred to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Secrets with certificates.
    pub secrets: BTreeSet<ObjectRef>,
    /// ConfigMaps with authorities.
    pub config_maps: BTreeSet<ObjectRef>,
    /// Services, with their EndpointSlices.
    pub services: BTreeSet<ServiceRef>,
}

/// One Gateway of ours.
#[derive(Debug, Clone)]
pub struct GatewayPicture {
    /// The generation that this was made of.
    pub generation: i64,
    /// Whether it is accepted. One that is not gets no data plane; what runs already stays as it is until the Gateway is
    /// accepted again or goes.
    pub accepted: bool,
    /// What it runs, with the endpoints of the world. Listeners bind `[::]` and the ports of the spec; [`rebind`] puts
    /// them elsewhere. Redirects name the ports of the spec, whatever a pod listens on.
    pub plan: Plan,
    /// Where the endpoints of the plan's clusters come from. A cluster that is not here has none and gets none.
    pub backends: BTreeMap<Name, BackendPort>,
    /// The certificates with keys that the plan names.
    pub certificates: BTreeMap<Name, Certificate>,
    /// The authorities that the plan names.
    pub authorities: BTreeMap<Name, Bundle>,
    /// The ports that clients use, each once, in order.
    pub ports: Vec<Port>,
    /// The addresses that the spec asks for and that may be had; empty if any will do.
    pub addresses: Vec<RequestedAddress>,
    /// Labels for everything that is made for it.
    pub labels: BTreeMap<String, String>,
    /// Annotations for everything that is made for it.
    pub annotations: BTreeMap<String, String>,
    /// The parameters in effect: those of the Gateway over those of its class.
    pub parameters: GatewayParametersSpec,
    /// Its status.
    pub status: Status,
}

/// A port of a Service behind a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackendPort {
    /// The Service.
    pub service: ServiceRef,
    /// The number of its port.
    pub port: u16,
    /// What the port carries.
    pub protocol: Protocol,
}

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    /// The Secret that it is from.
    pub secret: ObjectRef,
    /// What is in it; sound.
    pub pair: Arc<KeyPair>,
}

/// Certificates of authorities.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// The ConfigMaps that they are from.
    pub config_maps: Vec<ObjectRef>,
    /// What is in them together; sound.
    pub authorities: Arc<Authorities>,
}

/// A port of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// What it carries.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.protocol.as_str())
    }
}

/// The ports of the nodes that lead to those of a Service, if it is of the type that is reached there; nothing for a port
/// that has none yet.
pub fn node_ports(service: &Service) -> BTreeMap<Port, Option<u16>> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() == Some("NodePort"));
    let ports = spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports = ports.filter_map(|port| {
        let known = Port {
            protocol: Protocol::parse(port.protocol.as_deref())?,
            number: u16::try_from(port.port).ok()?,
        };
        let node_port = port.node_port.and_then(|number| u16::try_from(number).ok());
        Some((known, node_port.filter(|number| *number > 0)))
    });
    ports.collect()
}

/// An address that a Gateway asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedAddress {
    /// This one.
    This(Address),
    /// Any of the kind.
    Any(super::world::AddressKind),
}

impl GatewayPicture {
    /// Services whose endpoints the plan needs.
    pub fn services(&self) -> BTreeSet<&ServiceRef> {
        self.backends.values().map(|backend| &backend.service).collect()
    }

    /// The plan without endpoints, which changes only when the configuration does: who runs it fills them in with
    /// [`resolve`].
    pub fn plan_without_endpoints(&self) -> Plan {
        let mut plan = self.plan.clone();
        for cluster in &mut plan.clusters {
            cluster.endpoints.clear();
        }
        plan
    }
}

/// Gives every cluster of a plan the endpoints that these Services have at the moment.
pub fn resolve(plan: &mut Plan, backends: &BTreeMap<Name, BackendPort>, services: &Services) {
    for cluster in &mut plan.clusters {
        cluster.endpoints = backends.get(&cluster.name).map(|at| behind(at, services)).unwrap_or_default();
    }
}

/// The endpoints behind a port of a Service; none if there is no such Service or port.
pub(super) fn behind(at: &BackendPort, services: &Services) -> Vec<causeway_ir::Endpoint> {
    let Some(service) = services.get(&at.service) else { return Vec::new() };
    let Some(port) = endpoints::find_port(service, at.protocol, PortRef::Number(at.port)) else {
        return Vec::new();
    };
    endpoints::behind_port(service, port, services.slices(&at.service))
}

/// The same plan with every listener on these addresses, and on the port that `port` gives for the one of the spec: where a
/// pod may not bind low ports, or one machine has many Gateways. A listener that is there once keeps its name.
pub fn rebind(plan: &Plan, addresses: &[IpAddr], port: impl Fn(Protocol, u16) -> u16) -> Plan {
    let mut listeners = Vec::with_capacity(plan.listeners.len() * addresses.len());
    for listener in &plan.listeners {
        let protocol = if listener.protocol.is_udp() { Protocol::Udp } else { Protocol::Tcp };
        for (i, address) in addresses.iter().enumerate() {
            let mut bound = listener.clone();
            bound.bind = SocketAddr::new(*address, port(protocol, listener.bind.port()));
            if i > 0
                && let Ok(name) = Name::parse(&format!("{} {address}", listener.name))
            {
                bound.name = name;
            }
            listeners.push(bound);
        }
    }
    Plan { listeners, ..plan.clone() }
}
