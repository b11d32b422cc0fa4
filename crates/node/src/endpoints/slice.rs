//! The pure middle: from a Service and the pods it selects to its EndpointSlices and Endpoints.

use std::collections::BTreeMap;

use causeway_base::well_known::SERVICE_NAME_LABEL;
use k8s_openapi::{
    api::{
        core::v1::{
            EndpointAddress, EndpointPort as LegacyPort, EndpointSubset, Endpoints, ObjectReference, Pod,
            Service, ServicePort,
        },
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

use crate::workload::controller_reference;

pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "endpointslice-controller.causeway.dev";

/// One port of a Service as a pod serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Port {
    name: Option<String>,
    number: i32,
    protocol: String,
    app_protocol: Option<String>,
}

/// A pod with an address, and what of the Service it serves.
struct Backend<'a> {
    pod: &'a Pod,
    address: String,
    ready: bool,
    terminating: bool,
    ports: Vec<Port>,
}

/// The slices of a Service: one per address family and set of ports.
pub(super) fn build_slices(service: &Service, pods: &[Pod]) -> Vec<EndpointSlice> {
    let publish_all = publishes_not_ready(service);
    let mut groups: BTreeMap<(&'static str, Vec<Port>), Vec<Endpoint>> = BTreeMap::new();
    for backend in backends(service, pods) {
        let family = if backend.address.contains(':') { "IPv6" } else { "IPv4" };
        let serving = backend.ready;
        groups.entry((family, backend.ports)).or_default().push(Endpoint {
            addresses: vec![backend.address],
            conditions: Some(EndpointConditions {
                ready: Some(publish_all || (serving && !backend.terminating)),
                serving: Some(serving),
                terminating: Some(backend.terminating),
            }),
            hostname: hostname(service, backend.pod),
            node_name: backend.pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            target_ref: Some(target(backend.pod)),
            ..Endpoint::default()
        });
    }
    if groups.is_empty() {
        groups.insert(("IPv4", Vec::new()), Vec::new());
    }
    let mut labels: BTreeMap<String, String> = service.labels().clone();
    labels.insert(SERVICE_NAME_LABEL.into(), service.name_any());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let mut counted: BTreeMap<&'static str, usize> = BTreeMap::new();
    groups
        .into_iter()
        .map(|((family, ports), mut endpoints)| {
            let index = counted.entry(family).and_modify(|index| *index += 1).or_default();
            endpoints.sort_by(|a, b| target_name(a).cmp(&target_name(b)));
            let mut slice = EndpointSlice {
                address_type: family.to_owned(),
                endpoints,
                ports: Some(ports.into_iter().map(slice_port).collect()),
                ..EndpointSlice::default()
            };
            // A slice can't change its family, so a name is of one.
            let name = format!("{}-{}-{index}", service.name_any(), family.to_lowercase());
            slice.metadata.name = Some(name);
            slice.metadata.namespace = service.namespace();
            slice.metadata.labels = Some(labels.clone());
            slice.metadata.owner_references = Some(vec![controller_reference(service)]);
            slice
        })
        .collect()
}

/// The Endpoints of a Service, for clients that know nothing newer.
pub(super) fn build_endpoints(service: &Service, pods: &[Pod]) -> Endpoints {
    let publish_all = publishes_not_ready(service);
    let mut groups: BTreeMap<Vec<Port>, (Vec<EndpointAddress>, Vec<EndpointAddress>)> = BTreeMap::new();
    for backend in backends(service, pods).into_iter().filter(|backend| !backend.terminating || publish_all) {
        let address = EndpointAddress {
            ip: backend.address.clone(),
            hostname: hostname(service, backend.pod),
            node_name: backend.pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            target_ref: Some(target(backend.pod)),
        };
        let (ready, not_ready) = groups.entry(backend.ports).or_default();
        if backend.ready || publish_all {
            ready.push(address);
        } else {
            not_ready.push(address);
        }
    }
    let subsets: Vec<EndpointSubset> = groups
        .into_iter()
        .map(|(ports, (ready, not_ready))| EndpointSubset {
            addresses: Some(ready).filter(|list| !list.is_empty()),
            not_ready_addresses: Some(not_ready).filter(|list| !list.is_empty()),
            ports: Some(ports.into_iter().map(legacy_port).collect()),
        })
        .collect();
    let mut endpoints =
        Endpoints { subsets: Some(subsets).filter(|subsets| !subsets.is_empty()), ..Endpoints::default() };
    endpoints.metadata.name = Some(service.name_any());
    endpoints.metadata.namespace = service.namespace();
    endpoints.metadata.owner_references = Some(vec![controller_reference(service)]);
    let mut labels = service.labels().clone();
    // Tells slice mirroring that these have slices of their own.
    labels.insert("endpointslice.kubernetes.io/skip-mirror".into(), "true".into());
    endpoints.metadata.labels = Some(labels);
    endpoints
}

/// The name that a pod has below the Service's: those of a StatefulSet have one below that which the set names.
fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_below =
        spec.subdomain.as_deref() == Some(&service.name_any()) && pod.namespace() == service.namespace();
    spec.hostname.clone().filter(|name| is_below && !name.is_empty())
}

/// True when nothing that matters differs.
pub(super) fn same(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    a.address_type == b.address_type
        && a.endpoints == b.endpoints
        && a.ports.clone().unwrap_or_default() == b.ports.clone().unwrap_or_default()
        && a.metadata.labels == b.metadata.labels
        && a.metadata.owner_references == b.metadata.owner_references
}

fn backends<'a>(service: &Service, pods: &'a [Pod]) -> Vec<Backend<'a>> {
    let service_ports = service.spec.as_ref().and_then(|spec| spec.ports.clone()).unwrap_or_default();
    let mut found: Vec<Backend<'a>> = pods.iter().filter_map(|pod| backend(&service_ports, pod)).collect();
    found.sort_by_key(|backend| backend.pod.name_any());
    found
}

fn backend<'a>(service_ports: &[ServicePort], pod: &'a Pod) -> Option<Backend<'a>> {
    let status = pod.status.as_ref()?;
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let address = status.pod_ip.clone().filter(|address| !address.is_empty())?;
    let ready = status
        .conditions
        .as_deref()
        .unwrap_or_default()
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let mut ports: Vec<Port> = service_ports.iter().filter_map(|port| resolve_port(port, pod)).collect();
    ports.sort();
    // A pod that serves none of the ports would be an endpoint without a way in; only portless Services have those.
    if ports.is_empty() && !service_ports.is_empty() {
        return None;
    }
    Some(Backend { pod, address, ready, terminating: pod.metadata.deletion_timestamp.is_some(), ports })
}

fn resolve_port(service: &ServicePort, pod: &Pod) -> Option<Port> {
    let protocol = service.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let port = match &service.target_port {
        None | Some(IntOrString::Int(0)) => service.port,
        Some(IntOrString::Int(port)) => *port,
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecars = spec
                .init_containers
                .iter()
                .flatten()
                .filter(|c| c.restart_policy.as_deref() == Some("Always"));
            spec.containers
                .iter()
                .chain(sidecars)
                .flat_map(|container| container.ports.as_deref().unwrap_or_default())
                .find(|port| {
                    port.name.as_deref() == Some(name.as_str())
                        && port.protocol.as_deref().unwrap_or("TCP") == protocol
                })?
                .container_port
        }
    };
    Some(Port {
        name: service.name.clone(),
        number: port,
        protocol,
        app_protocol: service.app_protocol.clone(),
    })
}

fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: pod.namespace(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

fn target_name(endpoint: &Endpoint) -> Option<&str> {
    endpoint.target_ref.as_ref()?.name.as_deref()
}

fn slice_port(port: Port) -> EndpointPort {
    EndpointPort {
        // A Service's only port may have no name; slices then carry the empty one.
        name: Some(port.name.unwrap_or_default()),
        port: Some(port.number),
        protocol: Some(port.protocol),
        app_protocol: port.app_protocol,
    }
}

fn legacy_port(port: Port) -> LegacyPort {
    LegacyPort {
        name: port.name,
        port: port.number,
        protocol: Some(port.protocol),
        app_protocol: port.app_protocol,
    }
}

#[cfg(test)]
mod tests;
