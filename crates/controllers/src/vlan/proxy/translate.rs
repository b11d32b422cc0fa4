//! From a `ProxyServer`, the addresses of one proxy and the Services behind it to the plan that this proxy runs, and to
//! what is to be said of each backend. Pure: the same input gives the same plan, in the same order.

mod endpoints;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use causeway_api::{
    Backend, Balancing, HealthCheckKind, Outcome, PortDefaults, Protocol, ProxyProtocol, ProxyServer, Refusal,
};
use causeway_ir as ir;
use causeway_ir::server_name::normalise;
use kube::ResourceExt;

pub use endpoints::Targets;

/// Seconds without a byte that connections and UDP sessions may last, if the spec does not say.
const IDLE_TCP: i32 = 3600;
const IDLE_UDP: i32 = 60;

/// An address that the proxy listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// The address.
    pub address: IpAddr,
    /// Whose network it is of.
    pub place: Place,
}

/// Which of a proxy's networks an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The isolated network, where the address is the spec's.
    Server,
    /// The pod network.
    Pod,
}

/// What a `ProxyServer` means at this moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// What to run.
    pub plan: ir::Plan,
    /// Each backend, in the order of the spec.
    pub backends: Vec<BackendState>,
}

/// What is to be said of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendState {
    /// The backend's name.
    pub name: String,
    /// Endpoints that take new connections.
    pub ready_endpoints: usize,
    /// What is wrong or remarkable, if anything.
    pub message: Option<String>,
}

/// The name of a backend's cluster in the plan, and so in metrics.
pub fn cluster_name(proxy: &str, backend: &str) -> String {
    format!("{proxy}-{backend}")
}

/// Translates a spec that [`validate`](super::validate::validate) found nothing wrong with.
pub fn translate(proxy: &ProxyServer, bind: &[Bind], targets: &Targets) -> Translation {
    let name = proxy.name_any();
    let spec = &proxy.spec;
    let mut clusters = Vec::with_capacity(spec.backends.len());
    let mut backends = Vec::with_capacity(spec.backends.len());
    for backend in &spec.backends {
        let found = targets.resolve(proxy, backend);
        let ready_endpoints = found.endpoints.iter().filter(|e| e.ready).count();
        clusters.push(cluster(&name, backend, found.endpoints));
        backends.push(BackendState { name: backend.name.clone(), ready_endpoints, message: found.message });
    }
    let mut listeners = Vec::new();
    for (i, at) in bind.iter().enumerate() {
        // On one machine both networks may have one address.
        if bind.iter().take(i).all(|before| before.address != at.address) {
            listeners.extend(listen(&name, proxy, *at));
        }
    }
    let plan = ir::Plan {
        listeners,
        clusters,
        limits: ir::Limits { connections: positive(spec.connection_limit), ..ir::Limits::default() },
        drain_timeout: seconds(spec.drain_seconds),
    };
    Translation { plan, backends }
}

/// One listener per port and transport, by port.
fn listen(name: &str, proxy: &ProxyServer, bind: Bind) -> Vec<ir::Listener> {
    let mut doors: Vec<(u16, ir::Protocol)> =
        proxy.spec.backends.iter().map(|b| (b.port, transport(b.protocol))).collect();
    doors.sort_by_key(|(port, protocol)| (*port, *protocol == ir::Protocol::Udp));
    doors.dedup();
    let suffix = match bind.place {
        Place::Server => "",
        Place::Pod => "-pod",
    };
    let one = |(port, protocol): (u16, ir::Protocol)| {
        let here: Vec<&Backend> = proxy
            .spec
            .backends
            .iter()
            .filter(|b| b.port == port && transport(b.protocol) == protocol)
            .collect();
        let kind = if protocol == ir::Protocol::Udp { "-udp" } else { "" };
        let blank = ir::Listener {
            name: format!("{name}-listener-{port}{kind}{suffix}"),
            bind: SocketAddr::new(bind.address, port).to_string(),
            protocol,
            sniff: ir::Sniff::None,
            accept_proxy_protocol: false,
            routes: here.iter().map(|backend| route(name, backend)).collect(),
            no_server_name: ir::Outcome::Refuse(ir::Refusal::Alert),
            unknown_server_name: ir::Outcome::Refuse(ir::Refusal::Alert),
            plaintext: ir::Outcome::Refuse(ir::Refusal::Close),
        };
        if protocol == ir::Protocol::Udp {
            return unsniffed(blank);
        }
        let entry = proxy.spec.ports.iter().find(|entry| entry.port == port);
        let blank = ir::Listener {
            accept_proxy_protocol: entry.is_some_and(|entry| entry.accept_proxy_protocol),
            ..blank
        };
        if entry.is_some_and(|entry| leads_to_one(entry, &here)) {
            return unsniffed(blank);
        }
        let outcome = |wish: Option<&Outcome>, default: ir::Outcome| match wish {
            Some(Outcome { backend: Some(backend), .. }) => ir::Outcome::Cluster(cluster_name(name, backend)),
            Some(Outcome { refuse: Some(Refusal::Alert), .. }) => ir::Outcome::Refuse(ir::Refusal::Alert),
            Some(Outcome { refuse: Some(Refusal::Close), .. }) => ir::Outcome::Refuse(ir::Refusal::Close),
            _ => default,
        };
        ir::Listener {
            sniff: ir::Sniff::Tls,
            no_server_name: outcome(entry.and_then(|e| e.no_sni.as_ref()), blank.no_server_name.clone()),
            unknown_server_name: outcome(
                entry.and_then(|e| e.unknown_sni.as_ref()),
                blank.unknown_server_name.clone(),
            ),
            plaintext: outcome(entry.and_then(|e| e.plaintext.as_ref()), blank.plaintext.clone()),
            ..blank
        }
    };
    doors.into_iter().map(one).collect()
}

/// Whether every connection of a port ends at its only backend, so that nothing need be known of it. The server may then
/// speak first.
fn leads_to_one(entry: &PortDefaults, here: &[&Backend]) -> bool {
    let [only] = here else { return false };
    [&entry.plaintext, &entry.no_sni, &entry.unknown_sni]
        .into_iter()
        .all(|outcome| outcome.as_ref().and_then(|o| o.backend.as_ref()) == Some(&only.name))
}

fn unsniffed(mut listener: ir::Listener) -> ir::Listener {
    for route in &mut listener.routes {
        route.server_names.clear();
    }
    listener
}

fn route(proxy: &str, backend: &Backend) -> ir::Route {
    let names = std::iter::once(&backend.hostname).chain(&backend.alternate_hostnames);
    ir::Route {
        name: backend.name.clone(),
        server_names: names.map(|name| normalise(name)).collect(),
        cluster: cluster_name(proxy, &backend.name),
        connection_limit: None,
    }
}

fn cluster(proxy: &str, backend: &Backend, endpoints: Vec<ir::Endpoint>) -> ir::Cluster {
    let idle = match backend.protocol {
        Protocol::Udp => IDLE_UDP,
        Protocol::Tcp | Protocol::Tls | Protocol::Https => IDLE_TCP,
    };
    ir::Cluster {
        policy: match backend.balancing {
            Balancing::RoundRobin => ir::Policy::RoundRobin,
            Balancing::LeastConnections => ir::Policy::LeastConnections,
            Balancing::SourceHash => ir::Policy::SourceHash,
        },
        connect_timeout: seconds(backend.timeout_seconds),
        idle_timeout: seconds(backend.idle_timeout_seconds.unwrap_or(idle)),
        health_check: backend.health_check.as_ref().map(|check| ir::HealthCheck {
            kind: match check.kind {
                HealthCheckKind::Tcp => ir::HealthCheckKind::Tcp,
                HealthCheckKind::Tls => ir::HealthCheckKind::Tls,
            },
            interval: seconds(check.interval_seconds),
            timeout: seconds(check.timeout_seconds),
            unhealthy_after: 3,
            healthy_after: 2,
        }),
        slow_start: backend.slow_start_seconds.map(seconds),
        connection_limit: positive(backend.connection_limit),
        send_proxy_protocol: backend.send_proxy_protocol.map(|version| match version {
            ProxyProtocol::V1 => ir::ProxyVersion::V1,
            ProxyProtocol::V2 => ir::ProxyVersion::V2,
        }),
        ..ir::Cluster::new(cluster_name(proxy, &backend.name), endpoints)
    }
}

fn transport(protocol: Protocol) -> ir::Protocol {
    match protocol {
        Protocol::Udp => ir::Protocol::Udp,
        Protocol::Tcp | Protocol::Tls | Protocol::Https => ir::Protocol::Tcp,
    }
}

fn seconds(count: i32) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or_default())
}

fn positive(count: Option<i32>) -> Option<u32> {
    count.and_then(|count| u32::try_from(count).ok())
}

#[cfg(test)]
mod tests;
