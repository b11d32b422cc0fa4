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

    /// Whether both ends agreed on HTTP/2, as they can in TLS.
    pub(crate) fn agreed_on_h2(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Tls(stream) => stream.agreed_on(crate::http::H2),
        }
    }

    pub(crate) fn into_socket(self) -> Socket {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(stream) => stream.into_socket(),
        }
    }
}
