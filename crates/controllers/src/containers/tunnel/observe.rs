//! What is known of the objects that a tunnel proxy names: its network, the Services at both ends of its tunnels
//! with the endpoints of the servers, and the grants that it needs to use them.

use causeway_api::{ContainerNetwork, ContainerNetworkTunnelProxy, Tunnel, names};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{ResourceExt, api::DynamicObject};

use super::services::Named;
use crate::framework::children::{Children, typed};
use crate::framework::kinds::CONTAINER_NETWORK;
use crate::grants::{Grants, Users};

/// The objects that a tunnel proxy names, as far as they exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// Its network.
    pub(crate) network: Option<ContainerNetwork>,
    /// What each tunnel names, in the order of the spec.
    pub(crate) tunnels: Vec<ObservedTunnel>,
    /// Which objects of other namespaces it may use; none if it may use all of them.
    pub(crate) grants: Option<Grants>,
}

/// The objects that a tunnel names, as far as they exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedTunnel {
    /// The Service that it leads to.
    pub(crate) server: Option<Service>,
    /// That Service's slices.
    pub(crate) slices: Vec<EndpointSlice>,
    /// The Service that containers use.
    pub(crate) client: Option<Service>,
}

/// Who asks for consent in the name of the tunnel proxies of a namespace.
pub(crate) fn users(namespace: &str) -> Users<'_> {
    Users { group: names::GROUP, kind: "ContainerNetworkTunnelProxy", namespace }
}

/// Puts together what is known.
pub(crate) fn observe(
    proxy: &ContainerNetworkTunnelProxy,
    named: &Named,
    grants: Option<Grants>,
    children: &Children,
) -> Observed {
    let own = proxy.namespace().unwrap_or_default();
    let (namespace, name) = network_of(&own, &proxy.spec.container_network_name);
    Observed {
        network: children.get(CONTAINER_NETWORK, namespace, name).and_then(|network| typed(&network)),
        tunnels: proxy.spec.tunnels.iter().map(|tunnel| observe_tunnel(&own, tunnel, named)).collect(),
        grants,
    }
}

fn observe_tunnel(own: &str, tunnel: &Tunnel, named: &Named) -> ObservedTunnel {
    let (namespace, name) = server_of(own, tunnel);
    let (client_namespace, client_name) = client_of(own, tunnel);
    ObservedTunnel {
        server: named.service(namespace, name).cloned(),
        slices: named.slices_of(namespace, name).cloned().collect(),
        client: named.service(client_namespace, client_name).cloned(),
    }
}

/// Namespace and name of the ContainerNetwork that an object of the namespace `own` names.
pub(crate) fn network_of<'a>(own: &'a str, name: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((own, name))
}

/// Namespace and name of the Service that a tunnel leads to.
pub(crate) fn server_of<'a>(own: &'a str, tunnel: &'a Tunnel) -> (&'a str, &'a str) {
    (tunnel.server_service_namespace.as_deref().unwrap_or(own), &tunnel.server_service_name)
}

/// Namespace and name of the Service that containers use.
pub(crate) fn client_of<'a>(own: &'a str, tunnel: &'a Tunnel) -> (&'a str, &'a str) {
    (tunnel.client_service_namespace.as_deref().unwrap_or(own), &tunnel.client_service_name)
}

/// Whether `object`, a network or a grant, is among what is observed for `proxy`.
pub(crate) fn is_observed(proxy: &ContainerNetworkTunnelProxy, object: &DynamicObject) -> bool {
    let own = proxy.namespace().unwrap_or_default();
    let there = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let network = network_of(&own, &proxy.spec.container_network_name);
    match object.types.as_ref().map(|types| types.kind.as_str()) {
        Some("ContainerNetwork") => network == (there.as_str(), name.as_str()),
        Some("ReferenceGrant") => {
            let uses = |tunnel| server_of(&own, tunnel).0 == there || client_of(&own, tunnel).0 == there;
            there != own && (network.0 == there || proxy.spec.tunnels.iter().any(uses))
        }
        _ => false,
    }
}
