//! The end that listens, for any number of peers. Strangers get no further than the handshake, and can't keep others
//! from theirs.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::Throttle;
use causeway_base::lock::lock;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::connection::{Connection, Error};
use crate::identity::{self, Identity, Role};
use crate::socket;
use crate::tls::Tls;

/// A handshake that takes longer is not from a peer.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes at the same time, from one address and in all: a stranger can't use up the descriptors. Nor can it keep a
/// peer out that comes from the same address, as everybody does behind a port that a container runtime publishes: the
/// newest takes the place of the oldest, and a peer needs its place for milliseconds.
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
    let handshakes = Arc::new(Handshakes::default());
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
                _ = &mut handshake.displaced => return,
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

/// Handshakes under way, the oldest first.
#[derive(Default)]
struct Handshakes(Mutex<Places>);

#[derive(Default)]
struct Places {
    next: u64,
    taken: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

impl Handshakes {
    /// Gives one more its place, that of another if there is none left.
    fn begin(self: &Arc<Self>, from: IpAddr) -> Underway {
        let mut places = lock(&self.0);
        let oldest_of = |from: Option<IpAddr>, most: usize| {
            let mut numbers =
                places.taken.iter().filter(|(_, place)| from.is_none_or(|from| place.0 == from));
            let oldest = *numbers.next()?.0;
            (numbers.count() + 1 >= most).then_some(oldest)
        };
        let displaced = oldest_of(Some(from), FROM_ONE).or_else(|| oldest_of(None, FROM_ALL));
        // Dropped, it tells the one that has to go.
        if let Some(number) = displaced {
            places.taken.remove(&number);
        }
        let number = places.next;
        places.next += 1;
        let (displace_tx, displaced) = oneshot::channel();
        places.taken.insert(number, (from, displace_tx));
        Underway { all: self.clone(), number, displaced }
    }
}

/// One handshake under way.
struct Underway {
    all: Arc<Handshakes>,
    number: u64,
    /// Ends when another has its place.
    displaced: oneshot::Receiver<()>,
}

impl Drop for Underway {
    fn drop(&mut self) {
        lock(&self.all.0).taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    #[test]
    fn the_newest_takes_the_place_of_the_oldest() {
        let handshakes = Arc::new(Handshakes::default());
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let is_displaced = |one: &mut Underway| one.displaced.try_recv() == Err(TryRecvError::Closed);
        let mut other = handshakes.begin(address(2));
        let mut all: Vec<_> = (0..FROM_ONE).map(|_| handshakes.begin(address(1))).collect();
        assert!(!all.iter_mut().any(is_displaced));
        let mut newest = handshakes.begin(address(1));
        assert!(is_displaced(&mut all[0]) && !all[1..].iter_mut().any(is_displaced));
        assert!(!is_displaced(&mut newest) && !is_displaced(&mut other), "another address has its own");
        drop((all, newest));
        let mut crowd: Vec<_> = (0..FROM_ALL).map(|at| handshakes.begin(address((at / 8) as u8))).collect();
        assert!(is_displaced(&mut other), "the oldest of all");
        assert_eq!(crowd.iter_mut().filter_map(|one| is_displaced(one).then_some(())).count(), 0);
        drop(crowd);
        assert!(lock(&handshakes.0).taken.is_empty());
    }
}
