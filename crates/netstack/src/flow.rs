//! Flows as their owners have them: streams of TCP and datagrams of UDP.

mod tcp;
mod udp;

use std::net::{IpAddr, SocketAddr};

pub use tcp::{Pending, TcpFlow};
pub(crate) use tcp::{TcpCell, TcpState};
pub use udp::UdpFlow;
pub(crate) use udp::{UdpCell, header as udp_header};

/// The two ends of a flow: the one that this stack stands for, and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub here: SocketAddr,
    pub there: SocketAddr,
}

impl Ends {
    pub(crate) fn addresses(&self) -> (IpAddr, IpAddr) {
        (self.here.ip(), self.there.ip())
    }
}

/// Somebody opened a flow.
#[derive(Debug)]
pub enum Incoming {
    /// A TCP connection that waits to be accepted or refused.
    Tcp(Pending),
    /// A UDP flow whose first datagram is there.
    Udp(UdpFlow),
}
