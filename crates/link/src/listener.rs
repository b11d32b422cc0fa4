//! The end that listens, for any number of peers. Strangers get no further than the handshake, and can't keep others
//! from theirs.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::Throttle;
use causeway_base::lock::lock;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::connection::{Connection, Error};
use crate::handshakes::Handshakes;
use crate::identity::{self, Identity, Role};
use crate::socket;
use crate::tls::Tls;

/// A handshake that takes longer is not from a peer.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes at the same time, from one address and in all.
const FROM_ONE: usize = 16;
const FROM_ALL: usize = 256;
/// Refusals are told once in this time.
const TELL: Duration = Duration::from_secs(10);
/// Connections that wait for [`Listener::accept`].
const BACKLOG: usize = 16;
/// A pause after the kernel could not accept, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What listeners show to those who dial them; several may share it.
#[derive(Clone)]
pub struct Credentials(Arc<Mutex<Arc<ServerConfig>>>);

impl Credentials {
    /// Shows this identity.
    ///
    /// # Errors
    /// When the identity is not one of a listener.
    pub fn new(identity: &Identity) -> Result<Self, identity::Error> {
        Ok(Self(Arc::new(Mutex::new(identity.server_config()?))))
    }

    /// Shows another identity from the next handshake on.
    ///
    /// # Errors
    /// When the identity is not one of a listener.
    pub fn renew(&self, identity: &Identity) -> Result<(), identity::Error> {
        *lock(&self.0) = identity.server_config()?;
        Ok(())
    }
}

/// Takes connections and does the handshake with each.
pub struct Listener {
    address: SocketAddr,
    connections: mpsc::Receiver<Connection>,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    /// Listens at `address`.
    ///
    /// # Errors
    /// When the address can't be had.
    pub async fn bind(address: SocketAddr, credentials: Credentials) -> io::Result<Self> {
        let bound = TcpListener::bind(address).await?;
        let address = bound.local_addr()?;
        let (ready_tx, connections) = mpsc::channel(BACKLOG);
        let task = tokio::spawn(accept(bound, credentials, ready_tx));
        Ok(Self { address, connections, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next peer that has shown who it is and has greeted. It waits for [`Connection::start`] or
    /// [`Connection::refuse`].
    ///
    /// # Cancellation
    /// Nothing is lost when the future is dropped.
    pub async fn accept(&mut self) -> Connection {
        match self.connections.recv().await {
            Some(connection) => connection,
            // The task ends with this value and not before.
            None => std::future::pending().await,
        }
    }
}

async fn accept(listener: TcpListener, credentials: Credentials, ready_tx: mpsc::Sender<Connection>) {
    let handshakes = Handshakes::new(FROM_ONE, FROM_ALL);
    let refusals = Arc::new(Throttle::new(TELL));
    loop {
        let (socket, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let mut handshake = handshakes.begin(from.ip());
        let (config, ready_tx) = (lock(&credentials.0).clone(), ready_tx.clone());
        let refusals = refusals.clone();
        tokio::spawn(async move {
            let established = tokio::select! {
                established = timeout(HANDSHAKE, establish(socket, config)) => established,
                () = handshake.displaced() => return,
            };
            drop(handshake);
            match established.unwrap_or(Err(Error::Timeout(HANDSHAKE))) {
                // Without a receiver the listener is gone, and so is the connection.
                Ok(connection) => drop(ready_tx.send(connection).await),
                Err(error) => {
                    if let Some(refused) = refusals.pass() {
                        let error: &dyn std::error::Error = &error;
                        tracing::warn!(%from, refused, error, "refused a connection that is not a peer's");
                    }
                }
            }
        });
    }
}

async fn establish(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Connection, Error> {
    socket::prepare(&socket);
    Connection::establish(socket, Tls::server(config)?, Role::Listener, &[]).await
}
