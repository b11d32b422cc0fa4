//! What the caches know of the objects that a tunnel proxy names: its network, the Services at both ends of its tunnels
//! with the endpoints of the servers, and the grants that it needs to use them.

use causeway_api::{ContainerNetwork, ContainerNetworkTunnelProxy, Tunnel};
use causeway_base::well_known::SERVICE_NAME_LABEL;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{ResourceExt, api::DynamicObject};
use serde::de::DeserializeOwned;

use crate::framework::children::{ChildKind, Children, typed};
use crate::framework::kinds::{CONTAINER_NETWORK, ENDPOINT_SLICE, SERVICE};
use crate::grants::{Grants, REFERENCE_GRANT};

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

/// Reads the caches.
pub(crate) fn observe(
    proxy: &ContainerNetworkTunnelProxy,
    children: &Children,
    require_grants: bool,
) -> Observed {
    let own = proxy.namespace().unwrap_or_default();
    let (namespace, name) = network_of(&own, &proxy.spec.container_network_name);
    Observed {
        network: find(children, CONTAINER_NETWORK, namespace, name),
        tunnels: proxy.spec.tunnels.iter().map(|tunnel| observe_tunnel(&own, tunnel, children)).collect(),
        grants: require_grants.then(|| Grants::read(&children.all(REFERENCE_GRANT))),
    }
}

fn observe_tunnel(own: &str, tunnel: &Tunnel, children: &Children) -> ObservedTunnel {
    let (namespace, name) = server_of(own, tunnel);
    let (client_namespace, client_name) = client_of(own, tunnel);
    let slices = children.labelled(ENDPOINT_SLICE, namespace, (SERVICE_NAME_LABEL, name));
    ObservedTunnel {
        server: find(children, SERVICE, namespace, name),
        slices: slices.iter().filter_map(|slice| typed(slice)).collect(),
        client: find(children, SERVICE, client_namespace, client_name),
    }
}

fn find<K: DeserializeOwned>(children: &Children, kind: ChildKind, namespace: &str, name: &str) -> Option<K> {
    typed(&*children.get(kind, namespace, name)?)
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

/// Whether `object` is among what is observed for `proxy`.
pub(crate) fn is_observed(proxy: &ContainerNetworkTunnelProxy, object: &DynamicObject) -> bool {
    let own = proxy.namespace().unwrap_or_default();
    let there = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let is_service = |name: &str| {
        proxy.spec.tunnels.iter().any(|tunnel| {
            let service = (there.as_str(), name);
            server_of(&own, tunnel) == service || client_of(&own, tunnel) == service
        })
    };
    let network = network_of(&own, &proxy.spec.container_network_name);
    match object.types.as_ref().map(|types| types.kind.as_str()) {
        Some("Service") => is_service(&name),
        Some("EndpointSlice") => object.labels().get(SERVICE_NAME_LABEL).is_some_and(|name| is_service(name)),
        Some("ContainerNetwork") => network == (there.as_str(), name.as_str()),
        Some("ReferenceGrant") => {
            let uses = |tunnel| server_of(&own, tunnel).0 == there || client_of(&own, tunnel).0 == there;
            there != own && (network.0 == there || proxy.spec.tunnels.iter().any(uses))
        }
        _ => false,
    }
}
