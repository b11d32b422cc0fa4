//! The client's side of a connection.

use super::socket::Socket;
use crate::tls::TlsStream;

/// What the client speaks over.
pub(crate) enum Downstream {
    Tcp(Socket),
    /// TLS that ends here.
    Tls(Box<TlsStream>),
}

impl Downstream {
    /// The kernel's socket below.
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(stream) => stream.socket(),
        }
    }

    pub(crate) fn into_socket(self) -> Socket {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(stream) => stream.into_socket(),
        }
    }
}
