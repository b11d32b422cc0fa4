//! Services and their EndpointSlices → a plan: a listener for every address and port of a Service, a cluster for each
//! port. Pure. Nothing that a Service says can make the plan of the others invalid: what cannot be served is left out.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Deref,
    time::Duration,
};

use causeway_ir::{Cluster, Ejection, Endpoint, Listener, Plan, Policy, Protocol, Route, Sniff};
use k8s_openapi::api::{
    core::v1::{Service, ServicePort},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt;

use crate::endpoints::SERVICE_NAME;

/// Without a datagram for this long a client may get another endpoint.
const UDP_IDLE: Duration = Duration::from_mins(1);
/// As long as nobody says otherwise connections stay.
const TCP_IDLE: Duration = Duration::from_hours(24);

/// The plan of these Services.
pub fn translate<S, E>(services: &[S], slices: &[E]) -> Plan
where
    S: Deref<Target = Service>,
    E: Deref<Target = EndpointSlice>,
{
    let mut of_service: HashMap<(String, &str), Vec<&EndpointSlice>> = HashMap::new();
    for slice in slices {
        if let Some(name) = slice.labels().get(SERVICE_NAME) {
            of_service.entry((slice.namespace().unwrap_or_default(), name)).or_default().push(slice);
        }
    }
    // Whoever is first in this order has an address that two want.
    let ordered: BTreeMap<(String, String), &Service> = services
        .iter()
        .map(|service| ((service.namespace().unwrap_or_default(), service.name_any()), &**service))
        .collect();
    let mut plan = Plan::default();
    let mut bound = HashSet::new();
    for ((namespace, name), service) in ordered {
        let slices =
            of_service.get(&(namespace.clone(), name.as_str())).map(Vec::as_slice).unwrap_or_default();
        for port in service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()) {
            let Some(protocol) = protocol(port.protocol.as_deref()) else { continue };
            let cluster =
                format!("{namespace}/{name}:{}/{}", port.port, port.protocol.as_deref().unwrap_or("TCP"));
            let before = plan.listeners.len();
            for address in addresses(service, port) {
                if bound.insert((protocol, address)) {
                    plan.listeners.push(listener(&namespace, &name, address, protocol, &cluster));
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
pub fn service_of(listener: &str) -> Option<(&str, &str)> {
    let (namespace, rest) = listener.split_once('/')?;
    Some((namespace, rest.split_once('@')?.0))
}

fn protocol(name: Option<&str>) -> Option<Protocol> {
    match name {
        None | Some("" | "TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some(_) => None,
    }
}

/// Where a port of a Service is reached: each of its own addresses, and loopback for a node port.
fn addresses(service: &Service, port: &ServicePort) -> Vec<SocketAddr> {
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
    let node = port.node_port.and_then(number).filter(|_| !found.is_empty());
    found.extend(node.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
    found
}

fn listener(namespace: &str, name: &str, address: SocketAddr, protocol: Protocol, cluster: &str) -> Listener {
    let word = if protocol == Protocol::Udp { "UDP" } else { "TCP" };
    Listener {
        name: format!("{namespace}/{name}@{address}/{word}"),
        bind: address.to_string(),
        protocol,
        sniff: Sniff::None,
        accept_proxy_protocol: false,
        routes: vec![Route {
            name: "all".to_owned(),
            server_names: Vec::new(),
            cluster: cluster.to_owned(),
            connection_limit: None,
        }],
        no_server_name: causeway_ir::Outcome::default(),
        unknown_server_name: causeway_ir::Outcome::default(),
        plaintext: causeway_ir::Outcome::Refuse(causeway_ir::Refusal::Close),
    }
}

fn build_cluster(
    name: String,
    service: &Service,
    port: &ServicePort,
    protocol: Protocol,
    slices: &[&EndpointSlice],
) -> Cluster {
    let spec = service.spec.as_ref();
    let publish_all = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let mut found: BTreeMap<SocketAddr, Endpoint> = BTreeMap::new();
    for slice in slices {
        let ports: Vec<u16> = slice
            .ports
            .iter()
            .flatten()
            .filter(|candidate| {
                candidate.name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default()
                    && self::protocol(candidate.protocol.as_deref()) == Some(protocol)
            })
            .filter_map(|candidate| u16::try_from(candidate.port?).ok().filter(|port| *port > 0))
            .collect();
        for endpoint in &slice.endpoints {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            let terminating = conditions.terminating == Some(true);
            let ready = conditions.ready.unwrap_or(true) || publish_all;
            let serving = conditions.serving.unwrap_or(ready) || publish_all;
            // All addresses of an endpoint are the same server; the first that is one will do.
            let Some(ip) = endpoint.addresses.iter().find_map(|address| address.parse::<IpAddr>().ok())
            else {
                continue;
            };
            for number in &ports {
                let address = SocketAddr::new(ip, *number);
                let here = Endpoint { ready, serving, terminating, ..Endpoint::new(address.to_string()) };
                // An address may be in two slices while it moves from one to the other: the better word counts.
                let known = found.entry(address).or_insert_with(|| here.clone());
                if here.ready && !known.ready {
                    *known = here;
                }
            }
        }
    }
    let mut cluster = Cluster::new(name, found.into_values().collect());
    if spec.and_then(|spec| spec.session_affinity.as_deref()) == Some("ClientIP") {
        cluster.policy = Policy::SourceHash;
    }
    cluster.idle_timeout = if protocol == Protocol::Udp { UDP_IDLE } else { TCP_IDLE };
    // Readiness alone decides, as everywhere in Kubernetes; a failed connect is still tried elsewhere.
    cluster.ejection = Ejection { consecutive_failures: 0, consecutive_resets: 0, ..Ejection::default() };
    cluster
}

#[cfg(test)]
mod tests;
