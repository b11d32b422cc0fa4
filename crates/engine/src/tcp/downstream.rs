//! The client's side of a connection.

use super::socket::Socket;

/// What the client speaks over.
pub(crate) enum Downstream {
    Tcp(Socket),
}

impl Downstream {
    /// The kernel's socket below.
    pub(super) fn socket(&self) -> &Socket {
        match self {
            Self::Tcp(socket) => socket,
        }
    }

    pub(super) fn into_socket(self) -> Socket {
        match self {
            Self::Tcp(socket) => socket,
        }
    }
}
