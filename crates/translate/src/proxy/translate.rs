//! From a checked `ProxyServer`, the addresses of one of its replicas and the Services behind it to the plan that this
//! replica runs, and to what is to be said of each backend. The same input gives the same plan, in the same order.

use std::net::{IpAddr, SocketAddr};

use causeway_ir as ir;

use super::resolve::resolve;
use super::valid::{Listener, Valid};
use crate::services::Services;

/// An address that the proxy listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// The address.
    pub address: IpAddr,
    /// Whose it is.
    pub network: Network,
}

/// Which of a proxy's networks an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The isolated network, where the address is the spec's.
    Isolated,
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

/// The plan of a replica that listens on these addresses, with the endpoints of these Services.
pub fn translate(proxy: &Valid, bind: &[Bind], services: &Services) -> Translation {
    let mut clusters = Vec::with_capacity(proxy.backends.len());
    let mut backends = Vec::with_capacity(proxy.backends.len());
    for backend in &proxy.backends {
        let found = resolve(proxy, backend, services);
        let ready_endpoints = found.endpoints.iter().filter(|e| e.ready).count();
        clusters.push(ir::Cluster { endpoints: found.endpoints, ..backend.cluster.clone() });
        backends.push(BackendState { name: backend.name.clone(), ready_endpoints, message: found.message });
    }
    let mut listeners = Vec::new();
    for (i, at) in bind.iter().enumerate() {
        // On one machine both networks may have one address.
        if bind.iter().take(i).all(|before| before.address != at.address) {
            listeners.extend(proxy.listeners.iter().map(|listener| listen(listener, *at)));
        }
    }
    let plan = ir::Plan {
        listeners,
        clusters,
        limits: proxy.limits.clone(),
        drain_timeout: proxy.drain_timeout,
        ..ir::Plan::default()
    };
    Translation { plan, backends }
}

fn listen(listener: &Listener, bind: Bind) -> ir::Listener {
    let name = match bind.network {
        Network::Isolated => &listener.name,
        Network::Pod => &listener.pod_name,
    };
    ir::Listener {
        name: name.clone(),
        bind: SocketAddr::new(bind.address, listener.port),
        allowed_sources: Vec::new(),
        accept_proxy_protocol: listener.accept_proxy_protocol.clone(),
        protocol: listener.protocol.clone(),
    }
}

#[cfg(test)]
mod tests;
