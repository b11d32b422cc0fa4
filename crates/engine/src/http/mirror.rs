//! Copies of requests that go elsewhere. Nobody waits for them: a copy that can't keep up, or that finds no room, is given
//! up, and the request never notices.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::random;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::buffer::{Inbox, send};
use super::h1::HEAD;
use super::h1::framing::Body;
use super::h1::response::Response;
use super::h1::scan::Scan;
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

/// The copies of one request that keep up with it.
#[derive(Default)]
pub(crate) struct Copies(Vec<mpsc::Sender<Box<[u8]>>>);

impl Copies {
    /// Begins the copies of a request; `pieces` of a body may follow.
    pub(crate) fn begin(
        mirrors: &[Mirror],
        head: &[u8],
        to_head: bool,
        client: std::net::IpAddr,
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
                to_head,
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

    /// Hands on a piece of the body as it goes to the endpoint; whoever has no room for it is given up.
    pub(crate) fn pass(&mut self, lines: &[u8], data: &[u8]) {
        self.0.retain(|copy| copy.try_send([lines, data].concat().into()).is_ok());
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
    to_head: bool,
    client: std::net::IpAddr,
    worker: Rc<Worker>,
}

impl Copying {
    async fn run(self, mut pieces_rx: mpsc::Receiver<Box<[u8]>>) -> Option<()> {
        clock::wake();
        let state = self.cluster.state();
        let _held = Held::within(Arc::clone(&self.cluster), state.settings.connection_limit)?;
        let endpoint = self.cluster.pick(&state, self.client, &[], clock::woken())?;
        let server = if let Some(server) = self.worker.pool.take(&endpoint, u64::MAX) {
            server
        } else {
            let connecting = Upstream::connect(&endpoint.address, true);
            timeout(state.settings.connect_timeout, connecting).await.ok()?.ok()?
        };
        self.cluster.metrics.requests.inc();
        send(&server, &self.head, &[]).await.ok()?;
        while let Some(piece) = pieces_rx.recv().await {
            send(&server, &piece, &[]).await.ok()?;
        }
        self.hear_out(server, &endpoint).await
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

/// How many copies a core has under way.
pub(crate) type Mirrors = Cell<usize>;
