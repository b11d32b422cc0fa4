//! Listening sockets: one for UDP per worker, between which the kernel spreads clients, and one for TCP.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

const BACKLOG: i32 = 1024;
/// What the kernel keeps for a worker that is busy.
const RECEIVE_BUFFER: usize = 4 << 20;
/// How often a free port is looked for that both protocols have.
const ATTEMPTS: u32 = 20;

/// The sockets of a bind.
pub(crate) struct Sockets {
    pub(crate) udp: Vec<OwnedFd>,
    pub(crate) tcp: TcpListener,
    pub(crate) address: SocketAddr,
}

/// Opens both protocols on the same port, with as many UDP sockets as there are workers.
///
/// # Errors
/// If the address can't be had.
pub(crate) fn open(bind: SocketAddr, workers: usize) -> io::Result<Sockets> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match open_once(bind, workers) {
            Err(error)
                if bind.port() == 0 && error.kind() == io::ErrorKind::AddrInUse && attempt < ATTEMPTS => {}
            ended => return ended,
        }
    }
}

fn open_once(bind: SocketAddr, workers: usize) -> io::Result<Sockets> {
    // Without this another process of the same user could share the port unseen, and take half of the clients.
    udp(bind, false)?;
    let first = udp(bind, true)?;
    let address: SocketAddr = rustix::net::getsockname(&first)?.try_into()?;
    let mut all = vec![first];
    for _ in 1..workers {
        all.push(udp(address, true)?);
    }
    Ok(Sockets { udp: all, tcp: tcp(address)?, address })
}

fn udp(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let socket = new(address, SocketType::DGRAM, SocketFlags::CLOEXEC)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
    // The kernel gives less where less is allowed.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
    if address.ip().is_unspecified() {
        tell_destination(&socket, address)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Asks for the address that each datagram was sent to, from which it has to be answered.
fn tell_destination(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};
    match address {
        SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    Ok(())
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = new(address, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // What is accepted has it from here.
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn new(address: SocketAddr, kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
    let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(domain, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// Wakes whoever waits for a datagram on this socket, for good.
pub(crate) fn wake(socket: impl AsFd) {
    // The kernel says that there is no connection, and wakes nevertheless.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Read);
}
