//! What a tunnel proxy asks for, checked against the objects that it names. Pure. What is missing is part of the answer,
//! because the rest must work without it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use causeway_api::conditions::Reason;
use causeway_api::{
    ContainerNetwork, ContainerNetworkState, ContainerNetworkTunnelProxy, Tunnel, TunnelProtocol, names,
};
use causeway_base::well_known::{TUNNEL_CONTROL_PORT, TUNNEL_DATA_PORT};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::observe::{Observed, ObservedTunnel, client_of, network_of, server_of, users};
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
    let mut taken = HashMap::new();
    let tunnels = tunnels.map(|(tunnel, observed)| {
        let port = tunnel.client_port.map(|port| (port, protocol(tunnel.protocol)));
        // The first of those that ask for a port has it.
        let holder = port.and_then(|port| match taken.entry(port) {
            Entry::Occupied(first) => Some(*first.get()),
            Entry::Vacant(free) => {
                free.insert(tunnel.name.as_str());
                None
            }
        });
        check.tunnel(tunnel, observed, holder)
    });
    Valid {
        tunnels: tunnels.collect(),
        network: check.network(&proxy.spec.container_network_name, observed.network.as_ref()),
    }
}

struct Check<'a> {
    namespace: &'a str,
    grants: Option<&'a Grants>,
}

impl Check<'_> {
    fn users(&self) -> Users<'_> {
        users(self.namespace)
    }

    fn network(&self, path: &str, observed: Option<&ContainerNetwork>) -> Result<Network, Problem> {
        let (namespace, name) = network_of(self.namespace, path);
        let target = grants::Target { group: names::GROUP, kind: "ContainerNetwork", name };
        if self.grants.is_some_and(|grants| !grants.permit_object(self.users(), namespace, target)) {
            let advice = grants::advice_for(self.users(), namespace, target);
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

    /// `holder` is the tunnel that has the port which this one asks for.
    fn tunnel(&self, tunnel: &Tunnel, observed: &ObservedTunnel, holder: Option<&str>) -> ValidTunnel {
        let mut valid = ValidTunnel::default();
        let found = client_port(tunnel, holder).and_then(|()| self.fill(&mut valid, tunnel, observed));
        valid.problem = found.err();
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
            let problem =
                |why| Problem::permanent(Reason::InvalidSpec, format!("allowedSources: {source:?} {why}"));
            valid.allowed_sources.push(parse_source(source).map_err(problem)?);
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
        // Who writes into a Service decides where its clients go: more than to be one of them.
        let slices = grants::Target::slices_of(client_name);
        if self.grants.is_some_and(|grants| !grants.permit_object(self.users(), client_namespace, slices)) {
            let advice = grants::advice_for(self.users(), client_namespace, slices);
            return Err(Problem::permanent(Reason::RefNotPermitted, advice));
        }
        let client = existing(client_namespace, client_name, observed.client.as_ref())?;
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
        existing(namespace, name, observed)
    }
}

fn existing<'s>(namespace: &str, name: &str, observed: Option<&'s Service>) -> Result<&'s Service, Problem> {
    observed.filter(|service| service.metadata.deletion_timestamp.is_none()).ok_or_else(|| {
        let message = format!("Service {namespace}/{name} does not exist: create it");
        Problem::transient(Reason::NotFound, message)
    })
}

/// A network, or an address as one of a single host; or what is wrong with it.
fn parse_source(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.into());
    }
    match text.parse::<IpNet>() {
        Ok(network) if network.addr() == network.network() => Ok(network),
        Ok(network) => Err(format!(
            "has host bits set: write {} for the network, or {} for that address alone",
            network.trunc(),
            network.addr()
        )),
        Err(_) => Err("is neither an address nor a network in CIDR notation".to_owned()),
    }
}

/// Whether a tunnel can have the port that it asks for.
fn client_port(tunnel: &Tunnel, holder: Option<&str>) -> Result<(), Problem> {
    let Some(port) = tunnel.client_port else { return Ok(()) };
    let problem = |why: &str| {
        let message = format!("clientPort: {port} {why}: choose another, or leave it out");
        Err(Problem::permanent(Reason::InvalidSpec, message))
    };
    if tunnel.protocol == TunnelProtocol::Tcp && [TUNNEL_CONTROL_PORT, TUNNEL_DATA_PORT].contains(&port) {
        return problem("is the tunnel's own in the container");
    }
    match holder {
        Some(first) => problem(&format!("is that of tunnel {first} already")),
        None => Ok(()),
    }
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
