//! Listening sockets: one per core on the same address, so that the kernel spreads clients over the cores.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use serde::{Deserialize, Serialize};

const BACKLOG: i32 = 4096;

/// What the kernel carries for a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Transport {
    /// What a listener of a plan needs.
    pub(crate) fn of(protocol: &causeway_ir::Protocol) -> Self {
        if protocol.is_udp() { Self::Udp } else { Self::Tcp }
    }
}

/// When listeners may share their ports with another process of this user; by default never.
#[derive(Clone, Default)]
pub struct SharePorts(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl SharePorts {
    /// Asked whenever a listener is opened: whether a predecessor, or a successor, may have its port.
    pub fn when(is_shared: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_shared)))
    }

    pub(crate) fn now(&self) -> bool {
        self.0.as_ref().is_some_and(|is_shared| is_shared())
    }
}

impl std::fmt::Debug for SharePorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharePorts").field(&self.0.is_some()).finish()
    }
}

/// Opens a socket for each core, on ports that nobody else has unless they may be shared.
///
/// # Errors
/// If the address can't be had.
pub(crate) fn open(
    transport: Transport,
    address: SocketAddr,
    count: usize,
    share: bool,
) -> io::Result<Vec<OwnedFd>> {
    if !share {
        // Without this another process of the same user could share the port unseen, and take half of the clients.
        bind(transport, address, false)?;
    }
    let first = bind(transport, address, true)?;
    let address = self::address(&first)?;
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets.push(bind(transport, address, true)?);
    }
    for socket in &sockets {
        listen(transport, socket)?;
    }
    Ok(sockets)
}

/// The sockets of a predecessor, every one of which has clients waiting, and as many more as cores need.
///
/// # Errors
/// If there are none, or no more can be had.
pub(crate) fn adopt(
    transport: Transport,
    mut sockets: Vec<OwnedFd>,
    count: usize,
) -> io::Result<Vec<OwnedFd>> {
    let address = address(sockets.first().ok_or(io::ErrorKind::NotFound)?)?;
    while sockets.len() < count {
        let more = bind(transport, address, true)?;
        listen(transport, &more)?;
        sockets.push(more);
    }
    Ok(sockets)
}

/// Where a socket listens.
pub(crate) fn address(socket: impl AsFd) -> io::Result<SocketAddr> {
    Ok(rustix::net::getsockname(socket)?.try_into()?)
}

fn bind(transport: Transport, address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = match transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(domain, kind, flags, None)?;
    if transport == Transport::Tcp {
        sockopt::set_socket_reuseaddr(&socket, true)?;
        // What is accepted has it from here: a call less for each connection.
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_socket_reuseport(&socket, shared)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Streams have to be listened for; datagrams come by themselves.
fn listen(transport: Transport, socket: &OwnedFd) -> io::Result<()> {
    match transport {
        Transport::Tcp => Ok(rustix::net::listen(socket, BACKLOG)?),
        Transport::Udp => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_sends_without_delay() {
        let sockets = open(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)), 1, false).unwrap();
        let _client = std::net::TcpStream::connect(address(&sockets[0]).unwrap()).unwrap();
        let accepted = rustix::net::accept(&sockets[0]).unwrap();
        assert!(sockopt::tcp_nodelay(&accepted).unwrap());
    }

    #[test]
    fn a_port_is_shared_only_with_one_who_is_about_to_leave() {
        let old = open(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)), 1, false).unwrap();
        let at = address(&old[0]).unwrap();
        assert_eq!(open(Transport::Tcp, at, 1, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(open(Transport::Tcp, at, 1, true).is_ok());
    }
}
