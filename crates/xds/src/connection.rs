//! Accepted connections: counted, and looked at before HTTP/2 takes them, so that silence and rubbish on the port
//! take one of the permitted connections for some seconds only.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use crate::server::Socket;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 4096;
/// Until a connection has said how it begins.
const FIRST_BYTES_LIMIT: Duration = Duration::from_secs(10);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A pause after the system refused to hand out a connection, for lack of descriptors as a rule.
const REST: Duration = Duration::from_millis(100);

/// A connection with its permit.
pub(crate) struct Connection {
    io: Io,
    peer: Peer,
    _permit: OwnedSemaphorePermit,
}

enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Where a client connected from.
#[derive(Debug, Clone)]
pub(crate) struct Peer(pub(crate) String);

/// Accepts until it is stopped; connections that begin well go to `connection_tx`.
pub(crate) async fn accept(
    socket: Socket,
    tls: bool,
    connection_tx: mpsc::Sender<Result<Connection, io::Error>>,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = next(&socket) => accepted,
            () = stop.cancelled() => return,
        };
        let (io, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let (connection_tx, stop) = (connection_tx.clone(), stop.clone());
        tokio::spawn(async move {
            let begins = tokio::time::timeout(FIRST_BYTES_LIMIT, io.begins_well(tls));
            let well = tokio::select! {
                well = begins => matches!(well, Ok(Ok(true))),
                () = stop.cancelled() => false,
            };
            if well {
                // Nobody receives any more only when the server stops.
                let _ = connection_tx.send(Ok(Connection { io, peer, _permit: permit })).await;
            } else {
                tracing::debug!(peer = peer.0, "connection dropped: it does not begin with HTTP/2");
            }
        });
    }
}

async fn next(socket: &Socket) -> io::Result<(Io, Peer)> {
    match socket {
        Socket::Tcp(listener) => {
            let (stream, address) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Io::Tcp(stream), Peer(address.to_string())))
        }
        Socket::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            let pid = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
            Ok((
                Io::Unix(stream),
                Peer(pid.map_or_else(|| "unix".to_owned(), |pid| format!("unix (process {pid})"))),
            ))
        }
    }
}

impl Io {
    /// Whether the first bytes are those of HTTP/2; of TLS and Unix sockets only that there are some.
    async fn begins_well(&self, tls: bool) -> io::Result<bool> {
        match self {
            Self::Tcp(stream) if !tls => {
                let mut first = [0; PREFACE.len()];
                loop {
                    let count = stream.peek(&mut first).await?;
                    if count == 0 || !PREFACE.starts_with(&first[..count]) {
                        return Ok(false);
                    }
                    if count == PREFACE.len() {
                        return Ok(true);
                    }
                    // What was peeked stays readable, so there is nothing to be woken by.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Self::Tcp(stream) => stream.ready(Interest::READABLE).await.map(|_| true),
            Self::Unix(stream) => stream.ready(Interest::READABLE).await.map(|_| true),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Io::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Io::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Io::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Io::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
