//! Connections: questions that are there together are answered with one write, those that have to be asked elsewhere when their
//! answer is there, in any order (RFC 7766).

use std::future::pending;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::{Asker, Desk, Outcome, answer};
use crate::clock::Moment;
use crate::connections::{Connections, Place};
use crate::forward;
use crate::seats::Seats;
use crate::table::Table;
use crate::wire::LONGEST;

/// Questions of one connection that wait for another resolver.
const WAITING: usize = 100;
/// The longest question: options may make it longer than most, but a client can't make us keep more for it.
const QUESTION: usize = 4 << 10;
/// Bytes of answers that are written together.
const ROOM: usize = 16 << 10;
/// Nearly every answer is shorter.
const USUAL: usize = 4 << 10;
/// Connections of one client at a time.
pub(crate) const PER_CLIENT: usize = 100;
/// For a write to a client that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// What connections of a listener need.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) desk: Arc<Desk>,
    pub(crate) table_rx: watch::Receiver<Arc<Table>>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) seats: Arc<Seats>,
    pub(crate) worker: usize,
    pub(crate) accepted: prometheus_client::metrics::counter::Counter,
}

/// Accepts for ever.
///
/// # Errors
/// If the listener can't be used.
pub(crate) async fn serve(listener: TcpListener, service: Service) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                service.accepted.inc();
                let Some(seat) = service.seats.take(client.ip()) else { continue };
                let place = service.connections.open(Moment::now().millis);
                let connection = Connection::new(service.clone(), client.ip());
                tokio::spawn(async move {
                    if let Err(error) = connection.run(stream, &place).await {
                        tracing::debug!(%error, client = %client, "a connection ended");
                    }
                    drop(seat);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "can't accept");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

struct Connection {
    service: Service,
    asker: Asker,
    read: Vec<u8>,
    out: Vec<u8>,
    /// Bytes of `out` that wait to be written.
    filled: usize,
    waiting: FuturesUnordered<BoxFuture<'static, Option<Vec<u8>>>>,
}

impl Connection {
    fn new(service: Service, client: IpAddr) -> Self {
        let asker = Asker { address: client, worker: service.worker, udp: false };
        let (read, out) = (Vec::with_capacity(4 << 10), vec![0; ROOM]);
        Self { service, asker, read, out, filled: 0, waiting: FuturesUnordered::new() }
    }

    async fn run(mut self, mut stream: TcpStream, place: &Place) -> io::Result<()> {
        let mut idle_at = self.idle_at();
        let mut open = true;
        let mut given_away = pin!(place.given_away());
        loop {
            let may_read = open && self.waiting.len() < WAITING;
            tokio::select! {
                read = timeout_at(idle_at, stream.read_buf(&mut self.read)), if may_read => {
                    match read {
                        Err(_) if !self.waiting.is_empty() => idle_at = self.idle_at(),
                        Err(_) => return Ok(()),
                        // What was asked before is still answered.
                        Ok(Ok(0)) => open = false,
                        Ok(Ok(_)) => {
                            if self.take(&mut stream).await? {
                                idle_at = self.idle_at();
                                place.asked(Moment::now().millis);
                            }
                        }
                        Ok(Err(error)) => return Err(error),
                    }
                }
                () = &mut given_away => return Ok(()),
                reply = next(&mut self.waiting) => {
                    if let Some(reply) = reply {
                        self.push(&mut stream, &reply).await?;
                    }
                    if self.waiting.len() + 1 == WAITING {
                        self.take(&mut stream).await?;
                    }
                    self.flush(&mut stream).await?;
                    idle_at = self.idle_at();
                }
            }
            if !open && self.waiting.is_empty() {
                return Ok(());
            }
        }
    }

    /// When a client that asks nothing more is let go.
    fn idle_at(&self) -> Instant {
        Instant::now() + self.service.table_rx.borrow().tcp_idle
    }

    /// Answers all questions that are there; whether there was any.
    async fn take(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let table = Arc::clone(&self.service.table_rx.borrow());
        let now = Moment::now();
        let read = std::mem::take(&mut self.read);
        let mut rest = &read[..];
        while let Some((length, after)) = rest.split_first_chunk::<2>()
            && let Some((packet, after)) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))
            && self.waiting.len() < WAITING
        {
            rest = after;
            self.answer(stream, &table, packet, now).await?;
        }
        self.flush(stream).await?;
        if rest.first_chunk().is_some_and(|length| usize::from(u16::from_be_bytes(*length)) > QUESTION) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message that is too long for a question",
            ));
        }
        let (taken, left) = (read.len() - rest.len(), rest.len());
        self.read = read;
        self.read.copy_within(taken.., 0);
        self.read.truncate(left);
        Ok(taken > 0)
    }

    async fn answer(
        &mut self,
        stream: &mut TcpStream,
        table: &Arc<Table>,
        packet: &[u8],
        now: Moment,
    ) -> io::Result<()> {
        self.make_room(stream, USUAL).await?;
        loop {
            let out = &mut self.out[self.filled + 2..];
            let room = out.len();
            let (desk, asker) = (&self.service.desk, self.asker);
            let outcome = match answer(desk, table, asker, now, None, packet, out) {
                Outcome::Forward => match table.forwarder.admit(asker.address) {
                    Some(waiting) => {
                        let (desk, table) = (Arc::clone(desk), Arc::clone(table));
                        let packet = packet.to_vec();
                        self.waiting.push(Box::pin(async move {
                            forward::answer(&desk, &table, asker, &packet, waiting).await
                        }));
                        return Ok(());
                    }
                    None => forward::decline(desk, table, asker, now, packet, out),
                },
                outcome => outcome,
            };
            match outcome {
                Outcome::Written(written) if !written.truncated || room >= LONGEST => {
                    self.out[self.filled..self.filled + 2]
                        .copy_from_slice(&(written.len as u16).to_be_bytes());
                    self.filled += 2 + written.len;
                    return Ok(());
                }
                // It is longer than what was left; so long are few.
                Outcome::Written(_) => self.make_room(stream, LONGEST).await?,
                Outcome::Silence | Outcome::Forward => return Ok(()),
            }
        }
    }

    /// Makes room for an answer of this length.
    async fn make_room(&mut self, stream: &mut TcpStream, length: usize) -> io::Result<()> {
        if self.out.len() - self.filled < length + 2 {
            self.flush(stream).await?;
            let needed = self.out.len().max(length + 2);
            self.out.resize(needed, 0);
        }
        Ok(())
    }

    async fn push(&mut self, stream: &mut TcpStream, reply: &[u8]) -> io::Result<()> {
        self.make_room(stream, reply.len()).await?;
        let end = self.filled + 2 + reply.len();
        self.out[self.filled..self.filled + 2].copy_from_slice(&(reply.len() as u16).to_be_bytes());
        self.out[self.filled + 2..end].copy_from_slice(reply);
        self.filled = end;
        Ok(())
    }

    async fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        if self.filled > 0 {
            timeout(WRITE_TIMEOUT, stream.write_all(&self.out[..self.filled])).await??;
            self.filled = 0;
            // Few answers are longer, and clients may stay for long.
            self.out.truncate(ROOM);
            self.out.shrink_to(ROOM);
        }
        Ok(())
    }
}

/// The next answer that is there; never, if none is waited for.
async fn next(waiting: &mut FuturesUnordered<BoxFuture<'static, Option<Vec<u8>>>>) -> Option<Vec<u8>> {
    match waiting.next().await {
        Some(reply) => reply,
        None => pending().await,
    }
}
