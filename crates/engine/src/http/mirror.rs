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
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::buffer::Inbox;
use super::decision::Forward;
use super::h1::HEAD;
use super::h1::framing::{Body, Framing};
use super::h1::response::Response;
use super::h1::scan::Scan;
use super::h2::{Inflow, Outflow, Share, head};
use super::reach::{self, Server};
use super::sink::Sink;
use super::source::Piece;
use crate::clock;
use crate::cluster::{Cluster, Endpoint};
use crate::metrics::Held;
use crate::tcp::Upstream;
use crate::worker::Worker;

/// Pieces of a body that may wait for a copy.
const PIECES: usize = 32;
/// Copies that a core has under way at a time.
const MOST: usize = 1024;
/// For a copy as a whole.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where copies go, and how many.
pub(crate) struct Mirror {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) per_hundred_thousand: u32,
}

/// A piece of a body; nothing at its end. One that does not come to that is given up.
type Copied = Option<Bytes>;

/// The copies of one request that keep up with it.
#[derive(Default)]
pub(crate) struct Copies(Vec<mpsc::Sender<Copied>>);

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
            if !drawn || worker.mirrors.get() >= MOST {
                continue;
            }
            let (pieces_tx, pieces_rx) = mpsc::channel(PIECES);
            let under_way = UnderWay::new(worker);
            let copy = Copying {
                cluster: Arc::clone(&mirror.cluster),
                head: head.into(),
                framing: forward.framing,
                to_head: forward.ending.to_head,
                trailers: forward.trailers,
                client,
                worker: Rc::clone(worker),
            };
            spawn_local(async move {
                let _under_way = under_way;
                // Whatever becomes of it, nobody is told.
                let _ = timeout(PATIENCE, copy.run(pieces_rx)).await;
            });
            copies.push(pieces_tx);
        }
        Self(copies)
    }

    /// Hands on a piece of the body; whoever has no room for it is given up.
    pub(crate) fn pass(&mut self, piece: &Piece<'_>) {
        if !self.0.is_empty() {
            let piece = piece.to_bytes();
            self.0.retain(|copy| copy.try_send(Some(piece.clone())).is_ok());
        }
    }

    /// The body is complete.
    pub(crate) fn finish(self) {
        for copy in self.0 {
            // One that has no room is given up.
            let _ = copy.try_send(None);
        }
    }
}

/// Counts a copy until dropped.
struct UnderWay(Rc<Worker>);

impl UnderWay {
    fn new(worker: &Rc<Worker>) -> Self {
        worker.mirrors.set(worker.mirrors.get() + 1);
        Self(Rc::clone(worker))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.mirrors.set(self.0.mirrors.get() - 1);
    }
}

struct Copying {
    cluster: Arc<Cluster>,
    head: Box<[u8]>,
    framing: Framing,
    to_head: bool,
    trailers: bool,
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
        let pooled = reach::pooled(&self.worker, &state, &endpoint, server_name, None).await;
        let server = if let Some(server) = pooled {
            server
        } else {
            let to = reach::To { cluster: &self.cluster, state: &state, endpoint: &endpoint, server_name };
            reach::connect(&self.worker, to, None).await.ok()?.0
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
        let mut scan = Scan::default();
        let length = loop {
            if !inbox.is_empty()
                && let Some(length) = scan.end(inbox.bytes(), HEAD).ok()?
            {
                break length;
            }
            let count = poll_fn(|cx| inbox.poll_fill(cx, &server, buffers)).await.ok()?;
            if count == 0 {
                return None;
            }
        };
        let (framing, keep_alive) = {
            let mut index = buffers.index();
            let response = Response::parse(&inbox.bytes()[..length], &mut index, self.to_head).ok()?;
            (response.framing, response.keep_alive && response.status >= 200)
        };
        inbox.consume(length);
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

/// Sends what was gathered and the pieces of a body; nothing if the request was given up before its end.
async fn send_body(sink: &mut Sink<'_, Upstream>, mut pieces_rx: mpsc::Receiver<Copied>) -> Option<()> {
    loop {
        sink.flush().await.ok()?;
        match pieces_rx.recv().await? {
            Some(piece) => sink.push(Piece::Owned(piece), false).await.ok()?,
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

/// How many copies a core has under way.
pub(crate) type Mirrors = Cell<usize>;
