//! Options of sockets: sharing a port between cores, keep-alive, no delay, and ending with a reset.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use causeway_ir::{Keepalive, Protocol};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;

const BACKLOG: i32 = 4096;

/// A core's own socket of a listener.
pub enum ListenSocket {
    Tcp(std::net::TcpListener),
    Udp(std::net::UdpSocket),
}

impl ListenSocket {
    /// One socket per core on the same address; the kernel spreads clients over them.
    pub fn open(protocol: Protocol, address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        // Without this another process of the same user could share the port unseen, and take half of the clients.
        Self::bind(protocol, address, false)?;
        let first = Self::bind(protocol, address, true)?;
        let address = first.address()?;
        let mut sockets = vec![first];
        for _ in 1..count {
            sockets.push(Self::bind(protocol, address, true)?);
        }
        for socket in &sockets {
            socket.listen()?;
        }
        Ok(sockets)
    }

    /// The sockets of a predecessor, every one of which has clients waiting, and as many more as cores need.
    pub fn adopt(protocol: Protocol, inherited: Vec<OwnedFd>, count: usize) -> io::Result<Vec<Self>> {
        let mut sockets: Vec<Self> = inherited
            .into_iter()
            .map(|socket| match protocol {
                Protocol::Tcp => Self::Tcp(socket.into()),
                Protocol::Udp => Self::Udp(socket.into()),
            })
            .collect();
        let address = sockets.first().ok_or(io::ErrorKind::NotFound)?.address()?;
        while sockets.len() < count {
            let more = Self::bind(protocol, address, true)?;
            more.listen()?;
            sockets.push(more);
        }
        Ok(sockets)
    }

    fn bind(protocol: Protocol, address: SocketAddr, shared: bool) -> io::Result<Self> {
        let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let kind = match protocol {
            Protocol::Tcp => SocketType::STREAM,
            Protocol::Udp => SocketType::DGRAM,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(domain, kind, flags, None)?;
        if protocol == Protocol::Tcp {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            // What is accepted has it from here: a call less for each connection.
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        sockopt::set_socket_reuseport(&socket, shared)?;
        rustix::net::bind(&socket, &address)?;
        Ok(match protocol {
            Protocol::Tcp => Self::Tcp(socket.into()),
            Protocol::Udp => Self::Udp(socket.into()),
        })
    }

    /// Streams have to be listened for; datagrams come by themselves.
    fn listen(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => Ok(rustix::net::listen(socket, BACKLOG)?),
            Self::Udp(_) => Ok(()),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }
}

/// Connects, and does not wait to gather small writes.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(domain, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from_std(socket.into())?;
    // The event tells success from failure; only a failure has to be asked for its reason.
    if stream.ready(Interest::WRITABLE).await?.is_write_closed()
        && let Some(error) = stream.take_error()?
    {
        return Err(error);
    }
    Ok(stream)
}

/// Has the kernel ask now and then whether the peer is still there; one that is gone is noticed by the next read.
pub fn keep_alive(stream: &TcpStream, keepalive: &Keepalive) {
    if keepalive.time.is_zero() {
        return;
    }
    let set = || -> io::Result<()> {
        sockopt::set_tcp_keepidle(stream, keepalive.time.max(Duration::from_secs(1)))?;
        sockopt::set_tcp_keepintvl(stream, keepalive.interval.max(Duration::from_secs(1)))?;
        sockopt::set_tcp_keepcnt(stream, keepalive.probes.clamp(1, 127))?;
        sockopt::set_socket_keepalive(stream, true)?;
        Ok(())
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "keep-alive was not set");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn nearby() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[tokio::test]
    async fn both_sides_send_without_delay() {
        let sockets = ListenSocket::open(Protocol::Tcp, nearby(), 1).unwrap();
        let Some(ListenSocket::Tcp(listener)) = sockets.into_iter().next() else { panic!("one socket") };
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let server = connect(listener.local_addr().unwrap()).await.unwrap();
        let (client, _) = listener.accept().await.unwrap();
        assert!(server.nodelay().unwrap());
        assert!(client.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_refused_connection_says_so() {
        let address = std::net::TcpListener::bind(nearby()).unwrap().local_addr().unwrap();
        assert_eq!(connect(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn keep_alive_is_as_planned() {
        let listener = tokio::net::TcpListener::bind(nearby()).await.unwrap();
        let stream = connect(listener.local_addr().unwrap()).await.unwrap();
        keep_alive(&stream, &Keepalive { time: Duration::ZERO, ..Keepalive::default() });
        assert!(!sockopt::socket_keepalive(&stream).unwrap());
        let plan = Keepalive { time: Duration::from_secs(7), ..Keepalive::default() };
        keep_alive(&stream, &plan);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), plan.time);
    }
}
