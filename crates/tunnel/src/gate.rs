//! A tunnel's port on the client end. While nobody would answer on the host, the port stays bound and the
//! kernel refuses connections, so that a client, or its health check, is told the truth at once.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use causeway_ir::tunnel::{Port, TunnelProtocol as Protocol};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::net::{TcpListener, UdpSocket};

const BACKLOG: i32 = 4096;
const TRIES: usize = 16;

/// A bound port that takes connections only while it is open.
pub(crate) struct Gate {
    socket: OwnedFd,
    port: u16,
}

impl Gate {
    /// Binds the port; nothing is taken before [`Self::open`].
    pub(crate) fn bind(port: Port) -> io::Result<Self> {
        let (socket, port) = bind(Protocol::Tcp, port)?;
        Ok(Self { socket, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Takes connections from now on.
    pub(crate) fn open(&self) -> io::Result<TcpListener> {
        // Connections that were taken before have the same port.
        sockopt::set_socket_reuseaddr(&self.socket, true)?;
        rustix::net::listen(&self.socket, BACKLOG)?;
        TcpListener::from_std(self.socket.try_clone()?.into())
    }

    /// Refuses connections from now on; what [`Self::open`] gave must be dropped first.
    pub(crate) fn close(&self) {
        // A listener that is shut down keeps its port. It fails only if it did not listen, which is what is wanted.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Read);
        let _ = reserve(&self.socket);
    }
}

/// A socket for a tunnel of datagrams, and its port.
pub(crate) fn bind_datagrams(port: Port) -> io::Result<(UdpSocket, u16)> {
    let (socket, port) = bind(Protocol::Udp, port)?;
    Ok((UdpSocket::from_std(socket.into())?, port))
}

fn bind(protocol: Protocol, port: Port) -> io::Result<(OwnedFd, u16)> {
    match port {
        Port::Fixed(port) => bind_to(protocol, port),
        Port::Preferred(port) => bind_to(protocol, port).or_else(|_| bind_to_any(protocol)),
        Port::Any => bind_to_any(protocol),
    }
}

/// The port that the kernel chose may be taken by another a moment later.
fn bind_to_any(protocol: Protocol) -> io::Result<(OwnedFd, u16)> {
    let mut bound = bind_to(protocol, 0);
    for _ in 0..TRIES {
        match &bound {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => bound = bind_to(protocol, 0),
            _ => break,
        }
    }
    bound
}

/// On all addresses, IPv6 and IPv4; a container without IPv6 gets IPv4.
fn bind_to(protocol: Protocol, port: u16) -> io::Result<(OwnedFd, u16)> {
    let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    match bind_address(protocol, both) {
        Err(error) if matches!(error.raw_os_error(), Some(code) if no_ipv6(code)) => {
            bind_address(protocol, ipv4)
        }
        bound => bound,
    }
}

fn no_ipv6(code: i32) -> bool {
    [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| errno.raw_os_error() == code)
}

fn bind_address(protocol: Protocol, address: SocketAddr) -> io::Result<(OwnedFd, u16)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = match protocol {
        Protocol::Tcp => SocketType::STREAM,
        Protocol::Udp => SocketType::DGRAM,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    if protocol == Protocol::Tcp {
        sockopt::set_socket_reuseaddr(&socket, true)?;
        // What is accepted has it from here: a call less for each connection.
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    if protocol == Protocol::Tcp && address.port() == 0 {
        // Only a port that was asked for by number is kept by a listener that is shut down.
        let chosen: SocketAddr = rustix::net::getsockname(&socket)?.try_into()?;
        drop(socket);
        return bind_address(protocol, SocketAddr::new(address.ip(), chosen.port()));
    }
    if protocol == Protocol::Tcp {
        // With SO_REUSEADDR the kernel lets two share a port until one listens: this tells a port that is taken.
        rustix::net::listen(&socket, BACKLOG)?;
        rustix::net::shutdown(&socket, rustix::net::Shutdown::Read)?;
        reserve(&socket)?;
    }
    let bound: SocketAddr = rustix::net::getsockname(&socket)?.try_into()?;
    Ok((socket, bound.port()))
}

/// Keeps others from the port of a socket that does not listen: as long as it would share, they could have it too.
fn reserve(socket: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseaddr(socket, false)?)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    async fn connect(port: u16) -> io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await
    }

    #[tokio::test]
    async fn refuses_while_closed_and_keeps_its_port() {
        let gate = Gate::bind(Port::Any).expect("a port");
        for _ in 0..3 {
            let refused = connect(gate.port()).await.expect_err("closed");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let listener = gate.open().expect("opens");
            let (connected, accepted) = tokio::join!(connect(gate.port()), listener.accept());
            connected.expect("open");
            accepted.expect("open");
            drop(listener);
            gate.close();
        }
        assert!(Gate::bind(Port::Fixed(gate.port())).is_err(), "a closed gate has its port for itself");
        let other = Gate::bind(Port::Preferred(gate.port())).expect("another port");
        assert_ne!(other.port(), gate.port());
    }

    #[tokio::test]
    async fn opens_again_while_connections_of_the_last_time_are_open() {
        let gate = Gate::bind(Port::Any).expect("a port");
        let listener = gate.open().expect("opens");
        let (open, accepted) = tokio::join!(connect(gate.port()), listener.accept());
        drop(listener);
        gate.close();
        assert!(Gate::bind(Port::Fixed(gate.port())).is_err(), "closed, with a connection that is open");
        let listener = gate.open().expect("opens again");
        let (again, _) = tokio::join!(connect(gate.port()), listener.accept());
        again.expect("open");
        drop((open, accepted));
    }

    #[tokio::test]
    async fn a_fixed_port_that_is_taken_is_an_error_and_a_preferred_one_is_not() {
        let other = std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a port");
        let port = other.local_addr().expect("an address").port();
        let error = Gate::bind(Port::Fixed(port)).err().expect("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let gate = Gate::bind(Port::Preferred(port)).expect("another port");
        assert_ne!(gate.port(), port);
    }

    #[tokio::test]
    async fn takes_ipv4_and_ipv6() {
        let gate = Gate::bind(Port::Any).expect("a port");
        let listener = gate.open().expect("opens");
        connect(gate.port()).await.expect("IPv4");
        TcpStream::connect((Ipv6Addr::LOCALHOST, gate.port())).await.expect("IPv6");
        drop(listener);
    }
}
