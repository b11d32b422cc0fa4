//! The way from a loopback port to an Envoy's socket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;

/// Relayed connections at a time.
const MOST_RELAYED: usize = 64;
/// After a connection that could not be taken: there may be no descriptor left.
const RELAY_REST: Duration = Duration::from_millis(100);

/// Passes what comes here on to a socket in the file system and back: on one machine each pod has its own address, but
/// Envoy is started before anybody knows which.
pub(super) async fn relay(listener: TcpListener, socket: PathBuf) {
    let permits = Arc::new(Semaphore::new(MOST_RELAYED));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let mut near = match listener.accept().await {
            Ok((near, _)) => near,
            Err(error) => {
                tracing::warn!(%error, "a connection to {} is not taken", socket.display());
                tokio::time::sleep(RELAY_REST).await;
                continue;
            }
        };
        let socket = socket.clone();
        tokio::spawn(async move {
            // Without an Envoy behind the socket the client's connection is closed.
            if let Ok(mut far) = UnixStream::connect(&socket).await {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
            drop(permit);
        });
    }
}
