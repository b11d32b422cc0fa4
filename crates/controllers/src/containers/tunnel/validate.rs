//! What a tunnel proxy asks for, checked against the objects that it names. Pure. What is missing is part of the answer,
//! because the rest must work without it.

use std::net::IpAddr;

use causeway_api::conditions::Reason;
use causeway_api::{
    ContainerNetwork, ContainerNetworkState, ContainerNetworkTunnelProxy, Tunnel, TunnelProtocol, names,
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::observe::{Observed, ObservedTunnel, client_of, network_of, server_of};
use super::problem::Problem;
use crate::grants::{self, Grants, Users};

/// A spec that was checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Valid {
    /// The network to serve, or why there is none; `NetworkNotReady` leaves open whether it exists.
    pub(crate) network: Result<Network, Problem>,
    /// The tunnels, in the order of the spec.
    pub(crate) tunnels: Vec<ValidTunnel>,
}

/// A network of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// The runtime's id.
    pub(crate) id: String,
    /// The runtime's name.
    pub(crate) name: String,
}

/// A tunnel that was checked up to its first problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ValidTunnel {
    /// Who may use it; empty for everybody.
    pub(crate) allowed_sources: Vec<IpNet>,
    /// The port of the server's Service.
    pub(crate) server_port: Option<ServicePort>,
    /// The name that its port has in the client's Service.
    pub(crate) client_port_name: Option<String>,
    /// Why it can't be served.
    pub(crate) problem: Option<Problem>,
}

/// Checks the spec against what it names.
pub(crate) fn validate(proxy: &ContainerNetworkTunnelProxy, observed: &Observed) -> Valid {
    let namespace = proxy.namespace().unwrap_or_default();
    let check = Check { namespace: &namespace, grants: observed.grants.as_ref() };
    let tunnels = proxy.spec.tunnels.iter().zip(&observed.tunnels);
    Valid {
        network: check.network(&proxy.spec.container_network_name, observed.network.as_ref()),
        tunnels: tunnels.map(|(tunnel, observed)| check.tunnel(tunnel, observed)).collect(),
    }
}

struct Check<'a> {
    namespace: &'a str,
    grants: Option<&'a Grants>,
}

impl Check<'_> {
    fn users(&self) -> Users<'_> {
        Users { group: names::GROUP, kind: "ContainerNetworkTunnelProxy", namespace: self.namespace }
    }

    fn network(&self, path: &str, observed: Option<&ContainerNetwork>) -> Result<Network, Problem> {
        let (namespace, name) = network_of(self.namespace, path);
        let target = grants::Target { group: names::GROUP, kind: "ContainerNetwork", name };
        if self.grants.is_some_and(|grants| !grants.permit_object(self.users(), namespace, target)) {
            let advice = grants::advice_for(self.users(), namespace, target.kind, &[name]);
            return Err(Problem::permanent(Reason::RefNotPermitted, advice));
        }
        let Some(network) = observed else {
            let message = format!("ContainerNetwork {namespace}/{name} does not exist: create it");
            return Err(Problem::transient(Reason::NotFound, message));
        };
        if network.metadata.deletion_timestamp.is_some() {
            let message = format!("ContainerNetwork {namespace}/{name} is being deleted");
            return Err(Problem::transient(Reason::NotFound, message));
        }
        let status = network.status.clone().unwrap_or_default();
        let state = status.state.unwrap_or_default();
        let why = status.message.map(|message| format!(": {message}")).unwrap_or_default();
        let message = format!("ContainerNetwork {namespace}/{name} is {state:?}{why}");
        match (state, status.id, status.network_name) {
            (ContainerNetworkState::Running, Some(id), Some(name)) => Ok(Network { id, name }),
            (ContainerNetworkState::NotFound | ContainerNetworkState::Removed, ..) => {
                Err(Problem::transient(Reason::NotFound, message))
            }
            _ => Err(Problem::transient(Reason::NetworkNotReady, message)),
        }
    }

    fn tunnel(&self, tunnel: &Tunnel, observed: &ObservedTunnel) -> ValidTunnel {
        let mut valid = ValidTunnel::default();
        valid.problem = self.fill(&mut valid, tunnel, observed).err();
        valid
    }

    /// Fills in what is known, and stops at the first problem.
    fn fill(
        &self,
        valid: &mut ValidTunnel,
        tunnel: &Tunnel,
        observed: &ObservedTunnel,
    ) -> Result<(), Problem> {
        for source in &tunnel.allowed_sources {
            valid.allowed_sources.push(parse_source(source).ok_or_else(|| {
                let message = format!(
                    "allowedSources: {source:?} is neither an address nor a network in CIDR notation"
                );
                Problem::permanent(Reason::InvalidSpec, message)
            })?);
        }
        let (namespace, name) = server_of(self.namespace, tunnel);
        let (client_namespace, client_name) = client_of(self.namespace, tunnel);
        if (client_namespace, client_name) == (namespace, name) {
            let message =
                format!("Service {namespace}/{name} is both ends of the tunnel: name another client Service");
            return Err(Problem::permanent(Reason::InvalidSpec, message));
        }
        let server = self.service(namespace, name, observed.server.as_ref())?;
        let Some(port) = port_of(server, tunnel.protocol, None) else {
            let message = format!("Service {namespace}/{name} has no {} port", protocol(tunnel.protocol));
            return Err(Problem::permanent(Reason::InvalidSpec, message));
        };
        valid.server_port = Some(port.clone());
        let client = self.service(client_namespace, client_name, observed.client.as_ref())?;
        let selector = client.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        if selector.is_some_and(|selector| !selector.is_empty()) {
            let message = format!(
                "Service {client_namespace}/{client_name} has a selector, so its addresses are those of pods: remove the \
                 selector, or name another client Service"
            );
            return Err(Problem::permanent(Reason::Conflict, message));
        }
        valid.client_port_name =
            port_of(client, tunnel.protocol, Some(&tunnel.name)).and_then(|port| port.name.clone());
        Ok(())
    }

    fn service<'s>(
        &self,
        namespace: &str,
        name: &str,
        observed: Option<&'s Service>,
    ) -> Result<&'s Service, Problem> {
        if self.grants.is_some_and(|grants| !grants.permit(self.users(), namespace, name)) {
            let advice = grants::advice(self.users(), namespace, &[name].into());
            return Err(Problem::permanent(Reason::RefNotPermitted, advice));
        }
        observed.filter(|service| service.metadata.deletion_timestamp.is_none()).ok_or_else(|| {
            let message = format!("Service {namespace}/{name} does not exist: create it");
            Problem::transient(Reason::NotFound, message)
        })
    }
}

/// A network, or an address as one of a single host.
fn parse_source(text: &str) -> Option<IpNet> {
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
