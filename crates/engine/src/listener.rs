//! What a connection keeps of its listener: not the table, which would keep the names of its plan in memory for as long
//! as the connection lives.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use causeway_ir::AcceptProxyProtocol;
use ipnet::IpNet;

use crate::metrics::ListenerMetrics;

pub(crate) struct Listener {
    pub(crate) name: Arc<str>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The port that clients know.
    pub(crate) port: u16,
    allowed_sources: Box<[IpNet]>,
    accept_proxy_protocol: Option<AcceptProxyProtocol>,
    pub(crate) metrics: ListenerMetrics,
}

/// What a listener wants to hear first from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyHeader {
    /// The client's own bytes.
    None,
    Wanted,
    /// A header from this peer would not be believed.
    Untrusted,
}

impl Listener {
    pub(crate) fn new(plan: &causeway_ir::Listener, address: SocketAddr, metrics: ListenerMetrics) -> Self {
        Self {
            name: plan.name.shared(),
            address,
            port: plan.port.unwrap_or(address.port()),
            allowed_sources: plan.allowed_sources.clone().into(),
            accept_proxy_protocol: plan.accept_proxy_protocol.clone(),
            metrics,
        }
    }

    /// Whether a client may connect.
    pub(crate) fn allows(&self, client: IpAddr) -> bool {
        self.allowed_sources.is_empty() || contains(&self.allowed_sources, client)
    }

    pub(crate) fn proxy_header(&self, peer: IpAddr) -> ProxyHeader {
        match &self.accept_proxy_protocol {
            None => ProxyHeader::None,
            Some(accept) if accept.from.is_empty() || contains(&accept.from, peer) => ProxyHeader::Wanted,
            Some(_) => ProxyHeader::Untrusted,
        }
    }
}

fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}
