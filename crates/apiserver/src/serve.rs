//! The HTTPS front: accepts connections, does TLS, hands requests to the router, drains at shutdown.
//!
//! A request carries a [`PeerCertificate`] in its extensions when the client proved one of our certificates, and a [`Hold`].

mod connection;
mod room;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use connection::Hold;
pub(crate) use tls::ServerTls;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::Backoff;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use room::Room;

#[cfg(doc)]
use crate::access::PeerCertificate;

/// Between two tries to accept while the process is out of file descriptors.
const ACCEPT: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));

/// How long each step of a connection may take, and how many may come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// Waiting for the first request, and on HTTP/1.1 for the head of each further one.
    pub header: Duration,
    /// From shutdown until requests that still run, watches above all, are cut off.
    pub drain: Duration,
    /// Connections of clients that have not shown who they are; the newest takes the place of the oldest.
    pub strangers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(90),
            drain: Duration::from_secs(5),
            strangers: 512,
        }
    }
}

/// Serves `router` over HTTPS until `shutdown`, then drains.
pub(crate) async fn serve(
    listener: TcpListener,
    router: axum::Router,
    tls: Arc<ServerTls>,
    shutdown: CancellationToken,
) {
    serve_with_limits(listener, router, tls, Limits::default(), shutdown).await;
}

/// As [`serve`], with other limits.
pub(crate) async fn serve_with_limits(
    listener: TcpListener,
    router: axum::Router,
    tls: Arc<ServerTls>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let (connections, room) = (TaskTracker::new(), Room::new(limits.strangers));
    let accept = async {
        let mut retries = ACCEPT.retries();
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    retries.reset();
                    let Some((place, displaced)) = room.enter() else {
                        tracing::debug!(client.addr = %peer, "refused, for want of descriptors");
                        continue;
                    };
                    let connection = connection::Connection {
                        router: router.clone(),
                        tls: tls.clone(),
                        limits,
                        peer,
                        shutdown: shutdown.clone(),
                        place,
                    };
                    connections.spawn(async move {
                        tokio::select! {
                            () = connection.run(stream) => {}
                            () = displaced => {}
                        }
                    });
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    let pause = retries.next_delay();
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        pause_ms = pause.as_millis() as u64,
                        "can't accept connections; check the limit of open files"
                    );
                    tokio::time::sleep(pause).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = tls.keep_renewed() => {}
        () = shutdown.cancelled() => {}
    }
    // New connections are refused while the old ones drain.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Errors that `accept` reports on behalf of a client that is gone already.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
