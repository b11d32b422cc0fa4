//! From a backend's Service to the addresses behind it: the Service's port by number, the slices' port by that port's
//! name, and what each endpoint says of itself.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use causeway_api::{Backend, Protocol, ProxyServer};
use causeway_ir as ir;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use kube::ResourceExt;

use crate::{grants::Grants, vlan::proxy::references};

/// The label by which a slice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

type Key = (String, String);

/// The Services that a proxy may forward to, and their endpoints.
#[derive(Debug, Clone, Default)]
pub struct Targets {
    services: HashMap<Key, Arc<Service>>,
    slices: HashMap<Key, Vec<Arc<EndpointSlice>>>,
    grants: Option<Grants>,
}

/// What stands behind one backend.
pub(super) struct Resolved {
    pub endpoints: Vec<ir::Endpoint>,
    pub message: Option<String>,
}

impl Targets {
    /// Puts Services and slices in order; others than those of the backends do no harm.
    pub fn new(
        services: impl IntoIterator<Item = Arc<Service>>,
        slices: impl IntoIterator<Item = Arc<EndpointSlice>>,
    ) -> Self {
        let mut targets = Self::default();
        for service in services {
            targets.services.insert((service.namespace().unwrap_or_default(), service.name_any()), service);
        }
        for slice in slices {
            if let Some(service) = slice.labels().get(SERVICE_LABEL) {
                let key = (slice.namespace().unwrap_or_default(), service.clone());
                targets.slices.entry(key).or_default().push(slice);
            }
        }
        targets
    }

    /// The same, but in other namespaces only what these grants name may be used.
    #[must_use]
    pub fn granted_by(mut self, grants: Grants) -> Self {
        self.grants = Some(grants);
        self
    }

    /// Whether the proxy may forward to the backend's Service.
    pub fn permit(&self, proxy: &ProxyServer, backend: &Backend) -> bool {
        references::is_permitted(proxy, backend, self.grants.as_ref())
    }

    pub(super) fn resolve(&self, proxy: &ProxyServer, backend: &Backend) -> Resolved {
        let none = |message: String| Resolved { endpoints: Vec::new(), message: Some(message) };
        if !self.permit(proxy, backend) {
            return none(references::refusal(proxy, backend));
        }
        let full = format!("{}/{}", backend.target_namespace, backend.target_service);
        let key = (backend.target_namespace.clone(), backend.target_service.clone());
        let Some(service) = self.services.get(&key) else {
            return none(format!(
                "there is no Service {full}: create it, or correct targetService and targetNamespace"
            ));
        };
        let spec = service.spec.clone().unwrap_or_default();
        if spec.type_.as_deref() == Some("ExternalName") {
            return none(format!(
                "Service {full} is of type ExternalName and has no endpoints: use one with a selector"
            ));
        }
        let slices = self.slices.get(&key).map(Vec::as_slice).unwrap_or_default();
        let protocol = if backend.protocol == Protocol::Udp { "UDP" } else { "TCP" };
        let ports = spec.ports.unwrap_or_default();
        let asked = i32::from(backend.target_port);
        let listed =
            ports.iter().find(|p| p.port == asked && p.protocol.as_deref().unwrap_or("TCP") == protocol);
        let (endpoints, remark) = if let Some(port) = listed {
            (collect(slices, |p| same_port(port, p, protocol), asked), None)
        } else {
            let direct = collect(slices, |p| p.port == Some(asked) && speaks(p, protocol), asked);
            if direct.is_empty() {
                return none(format!(
                    "Service {full} has no {protocol} port {asked}; its ports are {}: correct targetPort",
                    port_list(&ports)
                ));
            }
            let remark = format!(
                "Service {full} has no {protocol} port {asked}, but its endpoints do: they are used directly; \
                 better write one of the Service's ports ({})",
                port_list(&ports)
            );
            (direct, Some(remark))
        };
        let ready = endpoints.iter().filter(|e| e.ready).count();
        let serving = endpoints.iter().filter(|e| e.serving && !e.ready).count();
        let message = match (ready, serving) {
            (0, 0) if endpoints.is_empty() => Some(format!(
                "Service {full} has no endpoints: start its pods, or check the Service's selector"
            )),
            (0, 0) => Some(format!(
                "none of the {} endpoints of Service {full} is ready: look at its pods",
                endpoints.len()
            )),
            (0, serving) => Some(format!(
                "no endpoint of Service {full} is ready; {serving} that are going away still serve"
            )),
            _ => remark,
        };
        Resolved { endpoints, message }
    }
}

/// The Service's port and the slice's are one when their names are; a port without a name has the empty one.
fn same_port(wanted: &ServicePort, found: &EndpointPort, protocol: &str) -> bool {
    wanted.name.as_deref().unwrap_or_default() == found.name.as_deref().unwrap_or_default()
        && speaks(found, protocol)
}

fn speaks(port: &EndpointPort, protocol: &str) -> bool {
    port.protocol.as_deref().unwrap_or("TCP") == protocol
}

fn port_list(ports: &[ServicePort]) -> String {
    if ports.is_empty() {
        return "none".to_owned();
    }
    let text = |p: &ServicePort| format!("{}/{}", p.port, p.protocol.as_deref().unwrap_or("TCP"));
    ports.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The endpoints of all slices in the order of their addresses; one that several slices name counts once, and is as
/// ready as the best of them says.
fn collect(
    slices: &[Arc<EndpointSlice>],
    wanted: impl Fn(&EndpointPort) -> bool,
    any_port: i32,
) -> Vec<ir::Endpoint> {
    let mut found: BTreeMap<SocketAddr, ir::Endpoint> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.address_type != "FQDN") {
        let ports = slice.ports.iter().flatten().filter(|port| wanted(port));
        // A port without a number stands for every number.
        for port in ports.filter_map(|port| u16::try_from(port.port.unwrap_or(any_port)).ok()) {
            for endpoint in &slice.endpoints {
                let conditions = endpoint.conditions.clone().unwrap_or_default();
                let terminating = conditions.terminating.unwrap_or(false);
                let ready = conditions.ready.unwrap_or(true) && !terminating;
                let serving = conditions.serving.unwrap_or(ready);
                for address in endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
                    let at = SocketAddr::new(address, port);
                    let next =
                        ir::Endpoint { ready, serving, terminating, ..ir::Endpoint::new(at.to_string()) };
                    let kept = found.entry(at).or_insert_with(|| next.clone());
                    if (next.ready, next.serving) > (kept.ready, kept.serving) {
                        *kept = next;
                    }
                }
            }
        }
    }
    found.into_values().collect()
}
