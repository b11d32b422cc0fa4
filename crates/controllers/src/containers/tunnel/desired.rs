//! What a tunnel proxy has to be, as things stand. Pure.

pub(super) mod plan;
pub(super) mod slices;

use causeway_api::conditions::Reason;
use causeway_api::{ContainerNetworkTunnelProxy, Tunnel};
use causeway_ir::Endpoint;
use causeway_translate::endpoints::behind_port;
use ipnet::IpNet;
use kube::ResourceExt;

use super::observe::{Observed, ObservedTunnel, server_of};
use super::problem::Problem;
use super::validate::{Network, Valid, ValidTunnel};

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

/// A tunnel with its Services looked up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredTunnel {
    /// What the spec says.
    pub(crate) spec: Tunnel,
    /// Who may use it; empty for everybody.
    pub(crate) allowed_sources: Vec<IpNet>,
    /// The port of the server's Service: the usual one for containers too.
    pub(crate) usual_port: Option<u16>,
    /// Where the server listens: those that are ready, and those that are about to go and still answer.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The name that its port has in the client's Service.
    pub(crate) client_port_name: Option<String>,
    /// Why it can't carry anything at the moment.
    pub(crate) problem: Option<Problem>,
}

/// What is asked for by a spec that was checked, with the endpoints that were observed.
pub(crate) fn desired(proxy: &ContainerNetworkTunnelProxy, valid: &Valid, observed: &Observed) -> Desired {
    let namespace = proxy.namespace().unwrap_or_default();
    let tunnels = proxy.spec.tunnels.iter().zip(&valid.tunnels).zip(&observed.tunnels);
    Desired {
        network: valid.network.clone(),
        aliases: proxy.spec.aliases.clone(),
        base_image: proxy.spec.base_image.clone(),
        tunnels: tunnels.map(|((spec, valid), observed)| tunnel(&namespace, spec, valid, observed)).collect(),
    }
}

fn tunnel(namespace: &str, spec: &Tunnel, valid: &ValidTunnel, observed: &ObservedTunnel) -> DesiredTunnel {
    let port = valid.server_port.as_ref();
    let mut problem = valid.problem.clone();
    let mut endpoints = Vec::new();
    if let (None, Some(port), Some(service)) = (&problem, port, &observed.server) {
        endpoints = behind_port(service, port, &observed.slices);
        endpoints.retain(|endpoint| endpoint.ready || endpoint.serving);
        if endpoints.is_empty() {
            let (namespace, name) = server_of(namespace, spec);
            let message = format!("Service {namespace}/{name} has no ready endpoint");
            problem = Some(Problem::transient(Reason::NoReadyEndpoints, message));
        }
    }
    DesiredTunnel {
        spec: spec.clone(),
        allowed_sources: valid.allowed_sources.clone(),
        usual_port: port.and_then(|port| u16::try_from(port.port).ok()),
        endpoints,
        client_port_name: valid.client_port_name.clone(),
        problem,
    }
}

#[cfg(test)]
mod tests;
