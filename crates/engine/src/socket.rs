//! Options of sockets: sharing a port between cores, keep-alive, no delay, and ending with a reset.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use causeway_ir::Keepalive;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::net::{TcpSocket, TcpStream};

const BACKLOG: u32 = 4096;

/// One listening socket per core on the same address.
pub fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<std::net::TcpListener>> {
    // Without this another process of the same user could share the port unseen, and take half of the connections.
    tcp_socket(address, false)?.bind(address)?;
    let mut address = address;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = tcp_socket(address, true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?.into_std()?;
        address = listener.local_addr()?;
        sockets.push(listener);
    }
    Ok(sockets)
}

/// One datagram socket per core on the same address; the kernel keeps a client with its core.
pub fn bind_udp(address: SocketAddr, count: usize) -> io::Result<Vec<std::net::UdpSocket>> {
    let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let open = |address: SocketAddr, shared: bool| -> io::Result<std::net::UdpSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(domain, SocketType::DGRAM, flags, None)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        sockopt::set_socket_reuseport(&socket, shared)?;
        rustix::net::bind(&socket, &address)?;
        Ok(socket.into())
    };
    // As above: nobody else may share the port.
    open(address, false)?;
    let mut address = address;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = open(address, true)?;
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn tcp_socket(address: SocketAddr, shared: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if shared {
        socket.set_reuseport(true)?;
    }
    Ok(socket)
}

/// Sets what both sides of a connection have; a peer that is gone already is noticed by the first read.
pub fn tune(stream: &TcpStream, keepalive: &Keepalive) {
    let set = || -> io::Result<()> {
        stream.set_nodelay(true)?;
        if !keepalive.time.is_zero() {
            sockopt::set_socket_keepalive(stream, true)?;
            sockopt::set_tcp_keepidle(stream, keepalive.time.max(Duration::from_secs(1)))?;
            sockopt::set_tcp_keepintvl(stream, keepalive.interval.max(Duration::from_secs(1)))?;
            sockopt::set_tcp_keepcnt(stream, keepalive.probes.clamp(1, 127))?;
        }
        Ok(())
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "socket options were not set");
    }
}

/// Closes at once: the peer gets a reset and no state stays behind.
pub fn refuse(stream: TcpStream) {
    // A failure means that the connection is gone already.
    let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
}

/// Ends with a reset, but only once everything sent has arrived: a reset drops what still waits to be sent.
pub async fn reset(stream: TcpStream) {
    const STEP: Duration = Duration::from_millis(10);
    const PATIENCE: u32 = 200;
    for _ in 0..PATIENCE {
        if unsent(&stream) == 0 {
            break;
        }
        tokio::time::sleep(STEP).await;
    }
    refuse(stream);
}

/// Bytes that the peer has not acknowledged.
#[expect(unsafe_code, reason = "rustix has no function for this ioctl")]
fn unsent(stream: &TcpStream) -> i32 {
    const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
    // SAFETY: SIOCOUTQ on a socket writes one int and nothing else.
    unsafe {
        let question = rustix::ioctl::Getter::<SIOCOUTQ, i32>::new();
        rustix::ioctl::ioctl(stream, question).unwrap_or(0)
    }
}
