//! The endpoint's side of a connection: how an endpoint is reached.

use std::io;

use causeway_ir::{Address, HttpVersion};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::socket::Socket;
use crate::cluster::{Cluster, Endpoint, State};
use crate::tls::{self, TlsStream};

/// What the endpoint speaks over.
pub(crate) enum Upstream {
    Tcp(Socket),
    Unix(Socket),
    Tls {
        stream: Box<TlsStream>,
        /// The name that the endpoint has shown, if that was the request's and not the plan's.
        server_name: Option<Box<str>>,
    },
}

/// What a connection to an endpoint is for, with the name of the server that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Carries<'a> {
    /// The first bytes for the endpoint are at hand.
    Requests { server_name: Option<&'a str>, version: HttpVersion },
    Bytes {
        server_name: Option<&'a str>,
        /// The first bytes for the endpoint are at hand.
        speaks_first: bool,
    },
}

impl<'a> Carries<'a> {
    pub(crate) fn server_name(self) -> Option<&'a str> {
        match self {
            Self::Requests { server_name, .. } | Self::Bytes { server_name, .. } => server_name,
        }
    }
}

impl Upstream {
    /// Connects to an endpoint of a cluster in the way that the cluster says: with TLS, or not at all, where it says so.
    ///
    /// # Cancellation
    /// Dropping the future closes the socket; nothing was sent yet.
    pub(crate) async fn reach(
        cluster: &Cluster,
        state: &State,
        endpoint: &Endpoint,
        carries: Carries<'_>,
    ) -> io::Result<Self> {
        let is_secured = state.settings.is_secured;
        let speaks_first = is_secured
            || match carries {
                Carries::Requests { .. } => true,
                Carries::Bytes { speaks_first, .. } => speaks_first,
            };
        let plain = Self::connect(&endpoint.address, speaks_first).await?;
        if !is_secured {
            return Ok(plain);
        }
        let Some(tls) = cluster.tls() else {
            return Err(tls::Failed::error("a certificate or authorities that the plan names are missing"));
        };
        let socket = plain.into_socket();
        socket.send_without_delay();
        let stream = Box::new(tls.connect(socket, &endpoint.address, carries).await?);
        let server_name = carries.server_name().filter(|_| tls.is_named_by_request()).map(Box::from);
        Ok(Self::Tls { stream, server_name })
    }

    /// Connects to an endpoint. `speaks_first`: the first bytes for it are at hand and are sent as soon as it has
    /// accepted, so that the acknowledgement of its accept can go with them.
    ///
    /// # Cancellation
    /// Dropping the future closes the socket; nothing was sent yet.
    pub(crate) async fn connect(address: &Address, speaks_first: bool) -> io::Result<Self> {
        match address {
            Address::Socket(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                connect(family, address, speaks_first).await.map(Self::Tcp)
            }
            Address::Unix(path) => {
                connect(AddressFamily::UNIX, &SocketAddrUnix::new(path)?, false).await.map(Self::Unix)
            }
            Address::Place(name) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{name} stands behind a link, and the engine has none"),
            )),
        }
    }

    /// The kernel's socket below.
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Self::Tcp(socket) | Self::Unix(socket) => socket,
            Self::Tls { stream, .. } => stream.socket(),
        }
    }

    pub(crate) fn into_socket(self) -> Socket {
        match self {
            Self::Tcp(socket) | Self::Unix(socket) => socket,
            Self::Tls { stream, .. } => stream.into_socket(),
        }
    }

    /// The name that the endpoint has shown, if that depends on the request.
    pub(crate) fn server_name(&self) -> Option<&str> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => None,
            Self::Tls { server_name, .. } => server_name.as_deref(),
        }
    }

    /// Whether TLS is between here and the endpoint.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, Self::Tls { .. })
    }

    /// Whether both ends agreed on HTTP/2, as they can in TLS.
    pub(crate) fn agreed_on_h2(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls { stream, .. } => stream.agreed_on(crate::http::H2),
        }
    }

    /// Whether the kernel may hold small writes back until told otherwise.
    pub(super) fn gathers(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }
}

async fn connect(
    family: AddressFamily,
    address: &impl SocketAddrArg,
    speaks_first: bool,
) -> io::Result<Socket> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if speaks_first {
        sockopt::set_tcp_quickack(&socket, false)?;
    }
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let socket = Socket::new(socket)?;
    socket.connected().await?;
    Ok(socket)
}

/// Whether a connect failed for want of something on this host (descriptors, memory, ports): the endpoint is not to
/// blame.
pub(crate) fn is_local(error: &io::Error) -> bool {
    const LOCAL: [Errno; 6] =
        [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM, Errno::NOSPC];
    Errno::from_io_error(error).is_some_and(|errno| LOCAL.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearby() -> std::net::TcpListener {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[tokio::test]
    async fn a_refused_connection_says_so_and_is_the_endpoints_fault() {
        let address = Address::Socket(nearby().local_addr().unwrap());
        let error = Upstream::connect(&address, false).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(!is_local(&error));
    }

    #[test]
    fn what_this_host_lacks_is_not_the_endpoints_fault() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS] {
            assert!(is_local(&errno.into()), "{errno}");
        }
        for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::TIMEDOUT] {
            assert!(!is_local(&errno.into()), "{errno}");
        }
    }

    #[tokio::test]
    async fn the_acknowledgement_waits_only_for_first_bytes() {
        let listener = nearby();
        listener.set_nonblocking(true).unwrap();
        let address = Address::Socket(listener.local_addr().unwrap());
        // A server has the connection once it is acknowledged. A busy machine may be late to look.
        let mut waited = false;
        for _ in 0..20 {
            let server = Upstream::connect(&address, true).await.unwrap();
            waited |= listener.accept().is_err();
            server.socket().send_now_and_end(b"first");
            while listener.accept().is_ok() {}
        }
        assert!(waited);
        for _ in 0..20 {
            let _server = Upstream::connect(&address, false).await.unwrap();
            assert!(listener.accept().is_ok());
        }
    }

    #[tokio::test]
    async fn unix_sockets_are_connected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("endpoint");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(Upstream::connect(&Address::Unix(path), true).await, Ok(Upstream::Unix(_))));
    }
}
