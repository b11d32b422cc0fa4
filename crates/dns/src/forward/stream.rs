//! A connection to a resolver, by TCP or TLS: many questions at a time, answered in any order, closed when idle.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, split};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::exchange::Error;
use super::question::random;

/// How long a connection may have nothing to do.
const IDLE: Duration = Duration::from_secs(10);
/// Questions that wait to be sent.
const QUEUE: usize = 256;

/// For a connection to be there; for TLS as long again, and as long for a resolver that does not read what it is asked.
const CONNECT: Duration = Duration::from_secs(3);

/// The authorities that count, and the name in the certificate.
pub(super) type Tls = (Arc<ClientConfig>, ServerName<'static>);

/// How a resolver is reached.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Tls>,
}

/// The way to a connection.
#[derive(Clone)]
pub(super) struct Stream(mpsc::Sender<Request>);

struct Request {
    packet: Vec<u8>,
    reply: oneshot::Sender<Result<Vec<u8>, Error>>,
}

impl Stream {
    /// Begins to connect; what is asked meanwhile waits.
    pub(super) fn open(route: Route) -> Self {
        let (request_tx, request_rx) = mpsc::channel(QUEUE); // those who ask → connection
        tokio::spawn(run(route, request_rx));
        Self(request_tx)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The message that came back with this one's id.
    ///
    /// # Errors
    /// If there is no connection, or it ends before.
    ///
    /// # Cancellation
    /// A reply that comes later is dropped.
    pub(super) async fn ask(&self, packet: &[u8]) -> Result<Vec<u8>, Error> {
        let (reply_tx, reply_rx) = oneshot::channel();
        let request = Request { packet: packet.to_vec(), reply: reply_tx };
        self.0.send(request).await.map_err(|_| Error::Closed)?;
        reply_rx.await.map_err(|_| Error::Closed)?
    }
}

async fn run(route: Route, mut request_rx: mpsc::Receiver<Request>) {
    let mut failure = match (connect(route.address).await, route.tls) {
        (Ok(stream), None) => {
            carry(stream, &mut request_rx).await;
            None
        }
        (Ok(stream), Some((config, name))) => {
            match timeout(CONNECT, TlsConnector::from(config).connect(name, stream)).await {
                Ok(Ok(stream)) => {
                    carry(stream, &mut request_rx).await;
                    None
                }
                Ok(Err(error)) => Some(Error::Tls(error)),
                Err(_) => Some(Error::Timeout),
            }
        }
        (Err(error), _) => Some(error),
    };
    request_rx.close();
    // The first who waits learns why; the others only that there is no connection.
    while let Some(request) = request_rx.recv().await {
        let _ = request.reply.send(Err(failure.take().unwrap_or(Error::Closed)));
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, Error> {
    let connected = timeout(CONNECT, TcpStream::connect(address)).await;
    let stream = connected.map_err(|_| Error::Timeout)?.map_err(Error::Reach)?;
    // Without it answers only come later.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Carries questions and replies until the resolver closes or there is nothing to do.
async fn carry<S>(stream: S, request_rx: &mut mpsc::Receiver<Request>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (reader, mut writer) = split(stream);
    let mut reader = BufReader::new(reader);
    let mut waiting: HashMap<[u8; 2], Request> = HashMap::new();
    let mut frame = Frame::default();
    // Questions do not move it while others wait: a resolver that says nothing is gone.
    let mut idle_at = Instant::now() + IDLE;
    loop {
        tokio::select! {
            read = timeout_at(idle_at, frame.read(&mut reader)) => {
                let Ok(Ok(mut packet)) = read else { return };
                idle_at = Instant::now() + IDLE;
                let Some(id) = packet.first_chunk::<2>() else { return };
                if let Some(request) = waiting.remove(id) {
                    packet[..2].copy_from_slice(&request.packet[..2]);
                    let _ = request.reply.send(Ok(packet));
                }
            }
            request = request_rx.recv() => {
                let Some(request) = request else { return };
                if waiting.is_empty() {
                    idle_at = Instant::now() + IDLE;
                }
                if waiting.len() >= QUEUE {
                    waiting.retain(|_, request| !request.reply.is_closed());
                }
                let mut id = [0; 2];
                loop {
                    random(&mut id);
                    if !waiting.contains_key(&id) {
                        break;
                    }
                }
                let mut packet = (request.packet.len() as u16).to_be_bytes().to_vec();
                packet.extend(&request.packet);
                packet[2..4].copy_from_slice(&id);
                waiting.insert(id, request);
                let written = async {
                    writer.write_all(&packet).await?;
                    writer.flush().await
                };
                if !matches!(timeout(CONNECT, written).await, Ok(Ok(()))) {
                    return;
                }
            }
        }
    }
}

/// A message that is being read; reading can be interrupted.
#[derive(Default)]
struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// # Cancellation
    /// May be dropped and called again; what was read is kept.
    async fn read(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
        loop {
            let wanted = match self.bytes.first_chunk::<2>() {
                Some(length) => 2 + usize::from(u16::from_be_bytes(*length)),
                None => 2,
            };
            if wanted > 2 && self.bytes.len() == wanted {
                return Ok(std::mem::take(&mut self.bytes).split_off(2));
            }
            if wanted == 2 && self.bytes.len() == 2 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let missing = (wanted - self.bytes.len()) as u64;
            if (&mut *reader).take(missing).read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_resolver_that_does_not_read_is_left() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let (request_tx, mut request_rx) = mpsc::channel(1);
        let (reply_tx, reply_rx) = oneshot::channel();
        assert!(request_tx.send(Request { packet: vec![0; 64], reply: reply_tx }).await.is_ok());
        let began = Instant::now();
        timeout(IDLE, carry(ours, &mut request_rx)).await.expect("it ends by itself");
        assert!(began.elapsed() <= CONNECT + Duration::from_secs(1));
        assert!(reply_rx.await.is_err(), "who asked is told");
    }
}
