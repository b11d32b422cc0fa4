//! Services and their EndpointSlices → a plan: a listener for every address and port of a Service, a cluster for each
//! port. Pure. Nothing that a Service says can make the plan of the others invalid: what cannot be served is left out.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Deref,
};

use causeway_ir::{
    Action, Cluster, ConnectionRoute, Ejection, Listener, Name, Period, Plan, Policy, Protocol,
};
use causeway_translate::endpoints;
use k8s_openapi::api::{
    core::v1::{Service, ServicePort},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt;

/// Without a datagram for this long a client may get another endpoint.
const UDP_IDLE: Period = Period::from_secs(60);
/// Long-lived connections stay.
const TCP_IDLE: Period = Period::from_secs(24 * 3600);

/// The plan of these Services. Node ports are also on `listen_on`, and so are Services of type LoadBalancer, the first that wants
/// a port there.
pub(crate) fn translate<S, E>(services: &[S], slices: &[E], listen_on: Option<IpAddr>) -> Plan
where
    S: Deref<Target = Service>,
    E: Deref<Target = EndpointSlice>,
{
    let mut of_service: HashMap<(&str, &str), Vec<&EndpointSlice>> = HashMap::new();
    for slice in slices {
        if let Some(service) = endpoints::service_of(slice) {
            of_service.entry(service).or_default().push(slice);
        }
    }
    // The first in this order has an address that two want.
    let ordered: BTreeMap<(String, String), &Service> = services
        .iter()
        .map(|service| ((service.namespace().unwrap_or_default(), service.name_any()), &**service))
        .collect();
    let mut plan = Plan::default();
    let mut bound = HashSet::new();
    for ((namespace, name), service) in ordered {
        let slices =
            of_service.get(&(namespace.as_str(), name.as_str())).map(Vec::as_slice).unwrap_or_default();
        for port in service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()) {
            let Some(protocol) = endpoints::Protocol::parse(port.protocol.as_deref()) else { continue };
            let Ok(cluster) = Name::parse(&format!("{namespace}/{name}:{}/{}", port.port, protocol.as_str()))
            else {
                continue;
            };
            let before = plan.listeners.len();
            for address in addresses(service, port, listen_on) {
                if bound.insert((protocol, address)) {
                    plan.listeners.extend(listener(&namespace, &name, address, protocol, &cluster));
                }
            }
            if plan.listeners.len() > before {
                plan.clusters.push(build_cluster(cluster, service, port, protocol, slices));
            }
        }
    }
    plan
}

/// The namespace and name of the Service that a listener belongs to.
pub(super) fn service_of(listener: &str) -> Option<(&str, &str)> {
    let (namespace, rest) = listener.split_once('/')?;
    Some((namespace, rest.split_once('@')?.0))
}

/// Where a port of a Service is reached: each of its own addresses, those of the machine for a node port, and what stands for a
/// load balancer.
fn addresses(service: &Service, port: &ServicePort, listen_on: Option<IpAddr>) -> Vec<SocketAddr> {
    let Some(spec) = &service.spec else { return Vec::new() };
    if spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
    let own = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let mut found: Vec<SocketAddr> = own
        // A headless Service has the address `None`.
        .filter_map(|address| Some(SocketAddr::new(address.parse().ok()?, number(port.port)?)))
        .collect();
    if let Some(port) = port.node_port.and_then(number).filter(|_| !found.is_empty()) {
        found.extend(node_addresses(listen_on).map(|address| SocketAddr::new(address, port)));
    }
    let outside = listen_on.filter(|_| spec.type_.as_deref() == Some("LoadBalancer"));
    found.extend(outside.and_then(|address| Some(SocketAddr::new(address, number(port.port)?))));
    found
}

/// Where node ports are: on loopback, and beyond it where that is asked for.
fn node_addresses(listen_on: Option<IpAddr>) -> impl Iterator<Item = IpAddr> {
    // Loopback is one of all addresses.
    let has_loopback = listen_on == Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let loopback = (!has_loopback).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    loopback.into_iter().chain(listen_on)
}

fn listener(
    namespace: &str,
    name: &str,
    address: SocketAddr,
    protocol: endpoints::Protocol,
    cluster: &Name,
) -> Option<Listener> {
    let route = ConnectionRoute {
        name: Name::parse("all").ok()?,
        connection_limit: None,
        action: Action::forward(cluster.clone()),
    };
    Some(Listener {
        name: Name::parse(&format!("{namespace}/{name}@{address}/{}", protocol.as_str())).ok()?,
        bind: address,
        allowed_sources: Vec::new(),
        port: None,
        accept_proxy_protocol: None,
        protocol: match protocol {
            endpoints::Protocol::Tcp => Protocol::Tcp(route),
            endpoints::Protocol::Udp => Protocol::Udp(route),
        },
    })
}

fn build_cluster(
    name: Name,
    service: &Service,
    port: &ServicePort,
    protocol: endpoints::Protocol,
    slices: &[&EndpointSlice],
) -> Cluster {
    let mut cluster = Cluster::new(name, endpoints::behind_port(service, port, slices.iter().copied()));
    let affinity = service.spec.as_ref().and_then(|spec| spec.session_affinity.as_deref());
    if affinity == Some("ClientIP") {
        cluster.policy = Policy::SourceHash;
    }
    cluster.idle_timeout = match protocol {
        endpoints::Protocol::Tcp => TCP_IDLE,
        endpoints::Protocol::Udp => UDP_IDLE,
    };
    // Readiness alone decides, as everywhere in Kubernetes; a failed connect is still tried elsewhere.
    cluster.ejection = Ejection { consecutive_failures: 0, consecutive_resets: 0, ..Ejection::default() };
    cluster
}

#[cfg(test)]
mod tests;
