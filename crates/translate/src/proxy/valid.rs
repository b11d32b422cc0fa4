//! A `ProxyServer` that can be run: every text of its spec parsed, in the words of the plan. What is still open is where
//! it listens and which endpoints are behind its Services.

use std::net::IpAddr;
use std::time::Duration;

use causeway_ir as ir;

use crate::services::ServiceRef;

/// A checked `ProxyServer`.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid {
    /// Its namespace.
    pub namespace: String,
    /// The addresses of its replicas on the isolated network.
    pub addresses: Vec<IpAddr>,
    /// Whether its pods are attached to that network by a NetworkAttachmentDefinition.
    pub is_attached: bool,
    /// Its ports, by number.
    pub listeners: Vec<Listener>,
    /// What is behind them, in the order of the spec.
    pub backends: Vec<Backend>,
    /// What it may take as a whole.
    pub limits: ir::Limits,
    /// How long connections may go on when they should end.
    pub drain_timeout: Duration,
}

impl Valid {
    /// The Services that it forwards to.
    pub fn services(&self) -> impl Iterator<Item = &ServiceRef> {
        self.backends.iter().map(|backend| &backend.service)
    }
}

/// A port of one transport, on whichever address.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The port.
    pub port: u16,
    /// The plan's listener on the isolated network.
    pub name: ir::Name,
    /// The plan's listener on the pod network.
    pub pod_name: ir::Name,
    /// Whether clients come with a PROXY protocol header.
    pub accept_proxy_protocol: Option<ir::AcceptProxyProtocol>,
    /// What is looked at, and the routes.
    pub protocol: ir::Protocol,
}

/// A Service behind a proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// Its name in the spec.
    pub name: String,
    /// The Service.
    pub service: ServiceRef,
    /// The Service's port.
    pub target_port: u16,
    /// Whether it takes datagrams, not connections.
    pub is_udp: bool,
    /// Its cluster, as yet without endpoints.
    pub cluster: ir::Cluster,
}
