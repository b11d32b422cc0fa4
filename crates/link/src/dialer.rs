//! The end that dials.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connection::{Connection, Error};
use crate::identity::{Identity, Role, server_name};
use crate::socket;
use crate::tls::Tls;

/// How long one attempt to connect may take: a way that is free answers at once, and a lost packet is soon sent again.
const CONNECT: Duration = Duration::from_secs(1);
const HANDSHAKE: Duration = Duration::from_secs(3);

/// Connects to the end that is called `peer`, greets it, and waits until it has answered.
///
/// # Errors
/// When nobody answers, the other end is somebody else or of another version, or it refuses.
///
/// # Cancellation
/// Dropping the future closes the connection.
pub async fn dial(
    address: SocketAddr,
    identity: &Identity,
    peer: &str,
    greeting: &[u8],
) -> Result<Connection, Error> {
    let socket =
        socket::connect(address, CONNECT).await.map_err(|source| Error::Connect { address, source })?;
    dial_over(socket, identity, peer, greeting).await
}

/// The same over a connection that has been made already.
///
/// # Errors
/// When the other end does not answer, is somebody else or of another version, or refuses.
///
/// # Cancellation
/// Dropping the future closes the connection.
pub async fn dial_over(
    socket: TcpStream,
    identity: &Identity,
    peer: &str,
    greeting: &[u8],
) -> Result<Connection, Error> {
    socket::prepare(&socket);
    let tls = Tls::client(identity.client_config()?, server_name(peer)?)?;
    timeout(HANDSHAKE, Connection::establish(socket, tls, Role::Dialer, greeting))
        .await
        .map_err(|_| Error::Timeout(HANDSHAKE))?
}
