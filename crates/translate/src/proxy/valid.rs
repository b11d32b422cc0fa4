//! A `ProxyServer` that can be run: every text of its spec parsed, in the words of the plan. What is still open is where
//! it listens and which endpoints are behind its Services.

use std::net::IpAddr;
use std::time::Duration;

use causeway_api::RouteKind;
use causeway_ir as ir;

use crate::services::ServiceRef;

/// A checked `ProxyServer`.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid {
    /// Its namespace.
    pub namespace: String,
    /// The addresses of its replicas on the isolated network.
    pub addresses: Vec<IpAddr>,
    /// Its main port.
    pub main_port: u16,
    /// Its ports, by number: those of backends, and those that wait for routes.
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

    /// What a port is called, by the Service in front of the proxy and by routes that attach to it.
    pub fn section(&self, port: u16) -> String {
        if port == self.main_port { "proxy".to_owned() } else { format!("proxy-{port}") }
    }

    /// The ports that a route of this kind means. One that names none means the main port, or every TCP port.
    pub fn route_ports(&self, kind: RouteKind, section: Option<&str>, port: Option<u16>) -> Vec<u16> {
        let is_meant = |listener: &&Listener| match (section, port) {
            (None, None) => kind == RouteKind::Tcp || listener.port == self.main_port,
            _ => {
                section.is_none_or(|section| section == self.section(listener.port))
                    && port.is_none_or(|port| port == listener.port)
            }
        };
        let listeners = self.listeners.iter().filter(|listener| listener.takes(kind));
        listeners.filter(is_meant).map(|listener| listener.port).collect()
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
    /// What is looked at, and the backends; none for a port of connections that are not looked at, until a route has it.
    pub protocol: Option<ir::Protocol>,
}

impl Listener {
    /// Whether routes of this kind may be on it.
    pub fn takes(&self, kind: RouteKind) -> bool {
        match kind {
            RouteKind::Tls => matches!(self.protocol, Some(ir::Protocol::Tls(_))),
            RouteKind::Tcp => self.protocol.is_none(),
        }
    }
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
