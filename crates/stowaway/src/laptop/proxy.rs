//! A proxy for processes that can't be put into a network of their own: SOCKS5 with names and datagrams, and HTTP, on one port.
//! Which of them a client speaks shows its first byte. A machine may have several users, so a password can be asked for.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::Handle;

mod associate;
mod http;
mod socks;

/// Clients at a time.
const CLIENTS: usize = 2048;
/// How long a client has to say what it wants.
const HELLO: Duration = Duration::from_secs(30);
/// A pause after the kernel could not accept, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Listens at `address`, which should be one of the loopback. With a password, clients have to give it, beside any user name.
    ///
    /// # Errors
    /// When the address can't be had.
    pub async fn bind(
        address: SocketAddr,
        password: Option<String>,
        laptop: Arc<Handle>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let way_out = Arc::new(WayOut { laptop, password });
        Ok(Self { address, task: tokio::spawn(accept(listener, way_out)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What clients are served with.
struct WayOut {
    laptop: Arc<Handle>,
    password: Option<String>,
}

impl WayOut {
    /// Whether a client that gave this password, or none, may go on.
    fn admits(&self, given: Option<&[u8]>) -> bool {
        self.password
            .as_ref()
            .is_none_or(|password| given.is_some_and(|given| is_same(password.as_bytes(), given)))
    }
}

/// Compares in a time that tells nothing of where they differ.
fn is_same(wanted: &[u8], given: &[u8]) -> bool {
    let differing = wanted.iter().zip(given).fold(0, |differing, (one, other)| differing | (one ^ other));
    wanted.len() == given.len() && differing == 0
}

async fn accept(listener: TcpListener, way_out: Arc<WayOut>) {
    let places = Arc::new(Semaphore::new(CLIENTS));
    // With the proxy its clients end.
    let mut clients = JoinSet::new();
    loop {
        // The next one waits in the kernel while there is no place.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while clients.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((socket, _)) => {
                let way_out = way_out.clone();
                clients.spawn(async move {
                    if let Err(error) = serve(socket, way_out).await {
                        tracing::debug!(%error, "a client of the proxy failed");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept a client");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(socket: TcpStream, way_out: Arc<WayOut>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut first = [0];
    let seen = timeout(HELLO, socket.peek(&mut first)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    match (seen, first[0]) {
        (0, _) => Ok(()),
        (_, socks::VERSION) => socks::serve(socket, &way_out).await,
        _ => http::serve(socket, way_out).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_the_same_or_not() {
        assert!(is_same(b"secret", b"secret") && is_same(b"", b""));
        assert!(
            !is_same(b"secret", b"secre")
                && !is_same(b"secret", b"secretx")
                && !is_same(b"secret", b"sEcret")
        );
    }
}
