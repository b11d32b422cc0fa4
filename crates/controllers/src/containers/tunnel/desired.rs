//! What a tunnel proxy is asked for, as things stand: its spec with every name in it looked up among the cached objects.
//! Pure. What is missing is part of the answer, because the rest must work without it.

pub(super) mod plan;
pub(super) mod slices;

use std::net::{IpAddr, SocketAddr};

use causeway_api::conditions::Reason;
use causeway_api::{
    ContainerNetwork, ContainerNetworkState, ContainerNetworkTunnelProxy, Tunnel, TunnelProtocol, names,
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::framework::children::{ChildKind, Children, typed};
use crate::framework::kinds::{CONTAINER_NETWORK, ENDPOINT_SLICE, SERVICE};
use crate::grants::{self, Grants, Users};

/// The label that joins an EndpointSlice to its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What a tunnel proxy is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Desired {
    /// The network to serve, or why there is none; `NetworkNotReady` leaves open whether it exists.
    pub(crate) network: Result<Network, Problem>,
    /// Names on that network.
    pub(crate) aliases: Vec<String>,
    /// What the client's image is built on.
    pub(crate) base_image: Option<String>,
    /// The tunnels, in the order of the spec.
    pub(crate) tunnels: Vec<DesiredTunnel>,
}

/// A network of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// The runtime's id.
    pub(crate) id: String,
    /// The runtime's name.
    pub(crate) name: String,
}

/// A tunnel with its Services looked up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredTunnel {
    /// What the spec says.
    pub(crate) spec: Tunnel,
    /// Who may use it; empty for everybody.
    pub(crate) allowed_sources: Vec<IpNet>,
    /// The port of the server's Service: the usual one for containers too.
    pub(crate) usual_port: Option<u16>,
    /// Where the server listens.
    pub(crate) endpoints: Vec<SocketAddr>,
    /// The name that its port has in the client's Service.
    pub(crate) client_port_name: Option<String>,
    /// Why it can't carry anything at the moment.
    pub(crate) problem: Option<Problem>,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// For programs.
    pub(crate) reason: Reason,
    /// For people.
    pub(crate) message: String,
    /// Whether it stays so until a person changes the spec or an object that it names.
    pub(crate) is_fault: bool,
}

impl Problem {
    fn missing(reason: Reason, message: String) -> Self {
        Self { reason, message, is_fault: false }
    }

    fn fault(reason: Reason, message: String) -> Self {
        Self { reason, message, is_fault: true }
    }
}

/// Looks everything up that the spec names. Without `grants`, objects of every namespace may be used.
pub(crate) fn desired(
    proxy: &ContainerNetworkTunnelProxy,
    children: &Children,
    grants: Option<&Grants>,
) -> Desired {
    let namespace = proxy.namespace().unwrap_or_default();
    let lookup = Lookup { namespace: &namespace, children, grants };
    Desired {
        network: lookup.network(&proxy.spec.container_network_name),
        aliases: proxy.spec.aliases.clone(),
        base_image: proxy.spec.base_image.clone(),
        tunnels: proxy.spec.tunnels.iter().map(|tunnel| lookup.tunnel(tunnel)).collect(),
    }
}

/// Namespace and name of the ContainerNetwork that an object of `namespace` names.
pub(crate) fn network_path<'a>(namespace: &'a str, name: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((namespace, name))
}

/// The namespace and name of the Service that a tunnel leads to.
pub(crate) fn server_of<'a>(namespace: &'a str, tunnel: &'a Tunnel) -> (&'a str, &'a str) {
    (tunnel.server_service_namespace.as_deref().unwrap_or(namespace), &tunnel.server_service_name)
}

/// The namespace and name of the Service that containers use.
pub(crate) fn client_of<'a>(namespace: &'a str, tunnel: &'a Tunnel) -> (&'a str, &'a str) {
    (tunnel.client_service_namespace.as_deref().unwrap_or(namespace), &tunnel.client_service_name)
}

struct Lookup<'a> {
    namespace: &'a str,
    children: &'a Children,
    grants: Option<&'a Grants>,
}

impl Lookup<'_> {
    fn users(&self) -> Users<'_> {
        Users { group: names::GROUP, kind: "ContainerNetworkTunnelProxy", namespace: self.namespace }
    }

    fn network(&self, path: &str) -> Result<Network, Problem> {
        let (namespace, name) = network_path(self.namespace, path);
        let target = grants::Target { group: names::GROUP, kind: "ContainerNetwork", name };
        if self.grants.is_some_and(|grants| !grants.permit_object(self.users(), namespace, target)) {
            let advice = grants::advice_for(self.users(), namespace, target.kind, &[name]);
            return Err(Problem::fault(Reason::RefNotPermitted, advice));
        }
        let Some(network) = self.find::<ContainerNetwork>(CONTAINER_NETWORK, namespace, name) else {
            let message = format!("ContainerNetwork {namespace}/{name} does not exist: create it");
            return Err(Problem::missing(Reason::NotFound, message));
        };
        if network.metadata.deletion_timestamp.is_some() {
            let message = format!("ContainerNetwork {namespace}/{name} is being deleted");
            return Err(Problem::missing(Reason::NotFound, message));
        }
        let status = network.status.unwrap_or_default();
        let state = status.state.unwrap_or_default();
        let why = status.message.map(|message| format!(": {message}")).unwrap_or_default();
        let message = format!("ContainerNetwork {namespace}/{name} is {state:?}{why}");
        match (state, status.id, status.network_name) {
            (ContainerNetworkState::Running, Some(id), Some(name)) => Ok(Network { id, name }),
            (ContainerNetworkState::NotFound | ContainerNetworkState::Removed, ..) => {
                Err(Problem::missing(Reason::NotFound, message))
            }
            _ => Err(Problem::missing(Reason::NetworkNotReady, message)),
        }
    }

    fn tunnel(&self, tunnel: &Tunnel) -> DesiredTunnel {
        let mut wanted = DesiredTunnel {
            spec: tunnel.clone(),
            allowed_sources: Vec::new(),
            usual_port: None,
            endpoints: Vec::new(),
            client_port_name: None,
            problem: None,
        };
        wanted.problem = self.fill(&mut wanted).err();
        if wanted.problem.is_some() {
            wanted.endpoints.clear();
        }
        wanted
    }

    /// Finds out what can be found out, and stops at the first thing that is missing.
    fn fill(&self, wanted: &mut DesiredTunnel) -> Result<(), Problem> {
        let tunnel = wanted.spec.clone();
        for source in &tunnel.allowed_sources {
            wanted.allowed_sources.push(network_of(source).ok_or_else(|| {
                let message = format!(
                    "allowedSources: {source:?} is neither an address nor a network in CIDR notation"
                );
                Problem::fault(Reason::InvalidSpec, message)
            })?);
        }
        let (namespace, name) = server_of(self.namespace, &tunnel);
        if client_of(self.namespace, &tunnel) == (namespace, name) {
            let message =
                format!("Service {namespace}/{name} is both ends of the tunnel: name another client Service");
            return Err(Problem::fault(Reason::InvalidSpec, message));
        }
        let server = self.service(namespace, name)?;
        let Some(port) = port_of(&server, tunnel.protocol, None) else {
            let message = format!("Service {namespace}/{name} has no {} port", protocol(tunnel.protocol));
            return Err(Problem::fault(Reason::InvalidSpec, message));
        };
        wanted.usual_port = u16::try_from(port.port).ok();
        let (client_namespace, client_name) = client_of(self.namespace, &tunnel);
        let client = self.service(client_namespace, client_name)?;
        if client
            .spec
            .as_ref()
            .and_then(|spec| spec.selector.as_ref())
            .is_some_and(|selector| !selector.is_empty())
        {
            let message = format!(
                "Service {client_namespace}/{client_name} has a selector, so its addresses are those of pods: remove the \
                 selector, or name another client Service"
            );
            return Err(Problem::fault(Reason::Conflict, message));
        }
        wanted.client_port_name =
            port_of(&client, tunnel.protocol, Some(&tunnel.name)).and_then(|port| port.name.clone());
        let slices = self.children.labelled(ENDPOINT_SLICE, namespace, (SERVICE_NAME, name));
        let slices = slices.iter().filter_map(|slice| typed::<EndpointSlice>(slice));
        wanted.endpoints = slices.flat_map(|slice| endpoints(&slice, port)).collect();
        wanted.endpoints.sort_unstable();
        wanted.endpoints.dedup();
        if wanted.endpoints.is_empty() {
            let message = format!("Service {namespace}/{name} has no ready endpoint");
            return Err(Problem::missing(Reason::NoReadyEndpoints, message));
        }
        Ok(())
    }

    fn service(&self, namespace: &str, name: &str) -> Result<Service, Problem> {
        if self.grants.is_some_and(|grants| !grants.permit(self.users(), namespace, name)) {
            let advice = grants::advice(self.users(), namespace, &[name].into());
            return Err(Problem::fault(Reason::RefNotPermitted, advice));
        }
        self.find::<Service>(SERVICE, namespace, name)
            .filter(|service| service.metadata.deletion_timestamp.is_none())
            .ok_or_else(|| {
                Problem::missing(
                    Reason::NotFound,
                    format!("Service {namespace}/{name} does not exist: create it"),
                )
            })
    }

    fn find<K: DeserializeOwned>(&self, kind: ChildKind, namespace: &str, name: &str) -> Option<K> {
        typed(&*self.children.get(kind, namespace, name)?)
    }
}

/// A network, or an address as one of a single host.
fn network_of(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn protocol(protocol: TunnelProtocol) -> &'static str {
    match protocol {
        TunnelProtocol::Tcp => "TCP",
        TunnelProtocol::Udp => "UDP",
    }
}

/// The Service's port of this protocol: the one of this name, or the first.
fn port_of<'a>(service: &'a Service, wanted: TunnelProtocol, name: Option<&str>) -> Option<&'a ServicePort> {
    let ports = service.spec.as_ref()?.ports.as_deref()?;
    let fits = |port: &&ServicePort| port.protocol.as_deref().unwrap_or("TCP") == protocol(wanted);
    let named = ports.iter().filter(fits).find(|port| name.is_some() && port.name.as_deref() == name);
    named.or_else(|| ports.iter().find(fits))
}

/// Where the ready endpoints of a slice serve this port.
fn endpoints(slice: &EndpointSlice, port: &ServicePort) -> Vec<SocketAddr> {
    let same = |name: &Option<String>| {
        name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default()
    };
    let number =
        slice.ports.iter().flatten().find(|candidate| same(&candidate.name)).and_then(|found| found.port);
    let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { return Vec::new() };
    let ready = slice.endpoints.iter().filter(|endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    });
    let addresses =
        ready.flat_map(|endpoint| &endpoint.addresses).filter_map(|address| address.parse::<IpAddr>().ok());
    addresses.map(|address| SocketAddr::new(address, number)).collect()
}

#[cfg(test)]
mod tests;
