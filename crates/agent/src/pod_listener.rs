//! Listening on the network of all pods, and on no other that the pod is on.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use crate::links::Links;

/// Connections that may wait to be taken.
const BACKLOG: u32 = 1024;

/// A listener on this pod's address that takes connections of that network alone: the kernel would take them for it from
/// every network of the pod.
///
/// # Errors
/// When the port is taken, or the address not here.
pub fn listen_on_pod_network(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    if let Some(interface) = Links::default().interface_of(at.ip()).filter(|_| !at.ip().is_loopback()) {
        // A kernel before 5.7 keeps that for the privileged.
        if let Err(error) = socket.bind_device(Some(interface.as_bytes())) {
            tracing::warn!(%error, interface, "{at} is also reached from other networks of this pod");
        }
    }
    socket.bind(at)?;
    socket.listen(BACKLOG)
}
