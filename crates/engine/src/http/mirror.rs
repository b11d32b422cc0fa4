//! Copies of requests that go elsewhere. Nobody waits for them: a copy that can't keep up, or that finds no room, is given
//! up, and the request never notices.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use causeway_base::random;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::timeout;

use super::buffer::{Buffers, Inbox};
use super::decision::Forward;
use super::h1::framing::{Body, Framing};
use super::h1::response::Response;
use super::h1::scan::Scan;
use super::h1::{HEAD, Version};
use super::h2::{Inflow, Outflow, Share, head};
use super::reach::{self, Server};
use super::sink::Sink;
use super::source::Piece;
use crate::clock;
use crate::cluster::{Cluster, Endpoint};
use crate::metrics::Held;
use crate::tcp::{Carries, Upstream};
use crate::worker::Worker;

/// Pieces of a body that may wait for a copy.
const PIECES: usize = 32;
/// Copies that a core has under way at a time.
const MOST: usize = 1024;
/// Bytes of all of them that wait on a core.
const MOST_BYTES: usize = 32 << 20;
/// For a copy as a whole.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where copies go, and how many.
pub(crate) struct Mirror {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) per_hundred_thousand: u32,
}

/// A piece of a body; nothing at its end. One that does not come to that is given up.
type Copied = Option<(Bytes, Room)>;

/// The copies of one request that keep up with it.
#[derive(Default)]
pub(crate) struct Copies(Vec<Following>);

/// A copy that keeps up so far.
struct Following {
    pieces_tx: mpsc::Sender<Copied>, // request → copy
    task: AbortHandle,
    mirrors: Rc<Mirrors>,
}

impl Following {
    /// Hands on a piece, if there is room for it.
    fn pass(&self, piece: &Bytes) -> bool {
        let Some(room) = self.mirrors.room(piece.len()) else { return false };
        self.pieces_tx.try_send(Some((piece.clone(), room))).is_ok()
    }
}

impl Copies {
    /// Begins the copies of a request, whose body may follow.
    pub(crate) fn begin(
        mirrors: &[Mirror],
        head: &[u8],
        forward: &Forward,
        client: IpAddr,
        worker: &Rc<Worker>,
    ) -> Self {
        let mut copies = Vec::new();
        for mirror in mirrors {
            let drawn = random::fraction() * 100_000.0 < f64::from(mirror.per_hundred_thousand);
            if !drawn || worker.mirrors.count.get() >= MOST {
                continue;
            }
            let Some(room) = worker.mirrors.room(head.len()) else { continue };
            let (pieces_tx, pieces_rx) = mpsc::channel(PIECES);
            let under_way = UnderWay::new(&worker.mirrors);
            let copy = Copying {
                cluster: Arc::clone(&mirror.cluster),
                head: without_expectation(head),
                framing: forward.framing,
                to_head: forward.ending.to_head,
                trailers: forward.trailers,
                came: forward.ending.version,
                client,
                worker: Rc::clone(worker),
            };
            let task = spawn_local(async move {
                let _under_way = (under_way, room);
                // Whatever becomes of it, nobody is told.
                let _ = timeout(PATIENCE, copy.run(pieces_rx)).await;
            });
            let task = task.abort_handle();
            copies.push(Following { pieces_tx, task, mirrors: Rc::clone(&worker.mirrors) });
        }
        Self(copies)
    }

    /// Hands on a piece of the body; whoever has no room for it is given up.
    pub(crate) fn pass(&mut self, piece: &Piece<'_>) {
        if !self.0.is_empty() {
            let piece = piece.to_bytes();
            self.0.retain(|copy| {
                let keeps_up = copy.pass(&piece);
                // What waits of one that does not is of no use to anybody.
                if !keeps_up {
                    copy.task.abort();
                }
                keeps_up
            });
        }
    }

    /// The body is complete.
    pub(crate) fn finish(self) {
        for copy in self.0 {
            if copy.pieces_tx.try_send(None).is_err() {
                copy.task.abort();
            }
        }
    }
}

/// Counts a copy until dropped.
struct UnderWay(Rc<Mirrors>);

impl UnderWay {
    fn new(mirrors: &Rc<Mirrors>) -> Self {
        mirrors.count.set(mirrors.count.get() + 1);
        Self(Rc::clone(mirrors))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
    }
}

/// Bytes that wait, until dropped.
struct Room {
    mirrors: Rc<Mirrors>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.mirrors.bytes.set(self.mirrors.bytes.get() - self.bytes);
    }
}

struct Copying {
    cluster: Arc<Cluster>,
    head: Box<[u8]>,
    framing: Framing,
    to_head: bool,
    trailers: bool,
    came: Version,
    client: IpAddr,
    worker: Rc<Worker>,
}

impl Copying {
    async fn run(self, pieces_rx: mpsc::Receiver<Copied>) -> Option<()> {
        clock::wake();
        let state = self.cluster.state();
        let _held = Held::within(Arc::clone(&self.cluster), state.settings.connection_limit)?;
        let endpoint = self.cluster.pick(&state, self.client, &[], clock::woken())?;
        let server_name = if self.cluster.is_named_by_request() { host(&self.head) } else { None };
        let version = reach::spoken(state.settings.http_version, self.came, false);
        let carries = Carries::Requests { server_name, version };
        let to = reach::To { cluster: &self.cluster, state: &state, endpoint: &endpoint, carries };
        let server = if let Some(server) = reach::pooled(&self.worker, to, None).await {
            server
        } else {
            reach::connect(&self.worker, to, None).await.ok()?.server
        };
        self.cluster.metrics.requests.inc();
        match server {
            Server::H1(server) => {
                let mut sink = Sink::h1(&server, self.head.to_vec(), self.framing);
                send_body(&mut sink, pieces_rx).await?;
                self.hear_out(server, &endpoint).await
            }
            Server::H2(share) => self.run_in_stream(&share, pieces_rx).await,
        }
    }

    async fn run_in_stream(&self, share: &Share, pieces_rx: mpsc::Receiver<Copied>) -> Option<()> {
        let buffers = &self.worker.workspace.buffers;
        let head = head::onward(&self.head, &mut buffers.index(), share.secure(), self.trailers)?;
        let ended = matches!(self.framing, Framing::None | Framing::Length(0));
        let (coming, stream) = share.send(head, ended).ok()?;
        let flow = RefCell::new(Outflow::asking(stream, ended));
        send_body(&mut Sink::<Upstream>::H2(&flow), pieces_rx).await?;
        let mut body = Inflow::new(coming.await.ok()?.into_body());
        loop {
            while body.ready().ok()? {
                body.take();
                body.advance();
            }
            if body.is_over() {
                return Some(());
            }
            poll_fn(|cx| body.poll(cx)).await.ok()?;
        }
    }

    /// Reads the answer, so that the connection can be used again.
    async fn hear_out(&self, server: Upstream, endpoint: &Arc<Endpoint>) -> Option<()> {
        let buffers = &self.worker.workspace.buffers;
        let mut inbox = Inbox::default();
        let (framing, keep_alive) = loop {
            let length = head_length(&mut inbox, &server, buffers).await?;
            let (status, framing, keep_alive) = {
                let mut index = buffers.index();
                let response = Response::parse(&inbox.bytes()[..length], &mut index, self.to_head).ok()?;
                (response.status, response.framing, response.keep_alive)
            };
            inbox.consume(length);
            match status {
                // Nobody asked for another protocol.
                101 => return None,
                // Another head follows.
                100..200 => {}
                _ => break (framing, keep_alive),
            }
        };
        let mut body = Body::new(framing);
        while keep_alive && !body.is_done() {
            let (count, _) = body.take(inbox.bytes()).ok()?;
            inbox.consume(count);
            if !body.is_done()
                && inbox.is_empty()
                && poll_fn(|cx| inbox.poll_fill(cx, &server, buffers)).await.ok()? == 0
            {
                return None;
            }
        }
        let is_clean = inbox.is_empty();
        inbox.release(buffers);
        clock::wake();
        if keep_alive && is_clean {
            self.worker.pool.give_back(endpoint, server);
        }
        Some(())
    }
}

/// Waits for the next head of an answer; its length.
async fn head_length(inbox: &mut Inbox, server: &Upstream, buffers: &Buffers) -> Option<usize> {
    let mut scan = Scan::default();
    loop {
        if !inbox.is_empty()
            && let Some(length) = scan.end(inbox.bytes(), HEAD).ok()?
        {
            return Some(length);
        }
        if poll_fn(|cx| inbox.poll_fill(cx, server, buffers)).await.ok()? == 0 {
            return None;
        }
    }
}

/// The head of a request for a copy: whether the body may come is for the endpoint of the request to say.
fn without_expectation(head: &[u8]) -> Box<[u8]> {
    const EXPECT: &[u8] = b"expect:";
    let is_it = |line: &[u8]| line.get(..EXPECT.len()).is_some_and(|name| name.eq_ignore_ascii_case(EXPECT));
    if !head.split(|byte| *byte == b'\n').any(is_it) {
        return head.into();
    }
    let kept = head.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_it(line));
    kept.flatten().copied().collect()
}

/// Sends what was gathered and the pieces of a body; nothing if the request was given up before its end.
async fn send_body(sink: &mut Sink<'_, Upstream>, mut pieces_rx: mpsc::Receiver<Copied>) -> Option<()> {
    loop {
        sink.flush().await.ok()?;
        match pieces_rx.recv().await? {
            Some((piece, _room)) => sink.push(Piece::Owned(piece), false).await.ok()?,
            None => return sink.finish(None).await.ok(),
        }
    }
}

/// The host that a request as it goes on is for: its second line.
fn host(head: &[u8]) -> Option<&str> {
    let line = head.split(|b| *b == b'\n').nth(1)?.strip_prefix(b"host: ")?;
    let authority = std::str::from_utf8(line.strip_suffix(b"\r")?).ok()?;
    let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
    (!authority.starts_with('[')).then_some(name)
}

/// What a core has under way.
#[derive(Default)]
pub(crate) struct Mirrors {
    count: Cell<usize>,
    bytes: Cell<usize>,
}

impl Mirrors {
    /// Room for so many bytes, if there is some.
    fn room(self: &Rc<Self>, bytes: usize) -> Option<Room> {
        let all = self.bytes.get() + bytes;
        (all <= MOST_BYTES).then(|| {
            self.bytes.set(all);
            Room { mirrors: Rc::clone(self), bytes }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_makes_room_when_it_goes() {
        let mirrors = Rc::new(Mirrors::default());
        let half: Vec<Room> = (0..16).filter_map(|_| mirrors.room(MOST_BYTES / 16)).collect();
        assert_eq!(half.len(), 16);
        assert!(mirrors.room(1).is_none());
        drop(half);
        assert!(mirrors.room(MOST_BYTES).is_some() && mirrors.room(MOST_BYTES + 1).is_none());
        assert_eq!(mirrors.bytes.get(), 0);
    }
}
