//! Connections to endpoints, those of one core: of HTTP/1.1 the ones that wait for their next request, of HTTP/2 all that
//! take one more.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use super::h2::{Share, Trunk};
use crate::clock;
use crate::cluster::Endpoint;
use crate::tcp::Upstream;

/// Of one endpoint.
const MOST: usize = 256;
/// Milliseconds; less than the keep-alive of most servers.
const IDLE: u64 = 30_000;

struct Idle {
    upstream: Upstream,
    endpoint: Arc<Endpoint>,
    since: u64,
}

/// The connections of HTTP/2 to one endpoint.
struct Trunks {
    endpoint: Arc<Endpoint>,
    open: Vec<Rc<Trunk>>,
    opening: Option<Rc<Opening>>,
}

impl Trunks {
    fn new(endpoint: &Arc<Endpoint>) -> Self {
        Self { endpoint: Arc::clone(endpoint), open: Vec::new(), opening: None }
    }
}

/// A connection that one request opens and others wait for.
#[derive(Default)]
pub(crate) struct Opening {
    /// Nobody can connect there.
    failed: Cell<bool>,
    over: Cell<bool>,
    news: Notify,
}

impl Opening {
    /// Waits for the end of it; whether others would fail, too. Whoever opened it may just have lost its patience.
    pub(crate) async fn has_failed(&self) -> bool {
        let news = self.news.notified();
        if !self.over.get() {
            news.await;
        }
        self.failed.get()
    }
}

/// The right to open a connection; others are told when it is dropped.
pub(crate) struct Opener<'a> {
    pool: &'a Pool,
    endpoint: Arc<Endpoint>,
    opening: Rc<Opening>,
}

impl Opener<'_> {
    /// The connection is there.
    pub(crate) fn succeed(self, trunk: Rc<Trunk>) {
        self.pool.add(&self.endpoint, trunk);
    }

    /// Nobody can connect there.
    pub(crate) fn fail(self) {
        self.opening.failed.set(true);
    }
}

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.pool.trunks.borrow_mut().get_mut(&Arc::as_ptr(&self.endpoint)) {
            of.opening = None;
        }
        self.opening.over.set(true);
        self.opening.news.notify_waiters();
    }
}

/// The connections of one core, by endpoint; of those that wait the last one back is the first to go.
#[derive(Default)]
pub(crate) struct Pool {
    idle: RefCell<HashMap<*const Endpoint, Vec<Idle>>>,
    trunks: RefCell<HashMap<*const Endpoint, Trunks>>,
}

impl Pool {
    /// One that has heard nothing since it was given back, which is not longer ago than `limit` milliseconds, and whose
    /// endpoint has shown the certificate of this name, if its name is that of the request.
    pub(crate) fn take(
        &self,
        endpoint: &Arc<Endpoint>,
        server_name: Option<&str>,
        limit: u64,
    ) -> Option<Upstream> {
        let mut idle = self.idle.borrow_mut();
        let of = idle.get_mut(&Arc::as_ptr(endpoint))?;
        let fits = |idle: &Idle| {
            clock::woken().saturating_sub(idle.since) <= limit && idle.upstream.server_name() == server_name
        };
        while let Some(place) = of.iter().rposition(fits) {
            let Idle { upstream, .. } = of.remove(place);
            if upstream.socket().is_quiet() {
                return Some(upstream);
            }
        }
        None
    }

    pub(crate) fn give_back(&self, endpoint: &Arc<Endpoint>, upstream: Upstream) {
        let mut idle = self.idle.borrow_mut();
        let of = idle.entry(Arc::as_ptr(endpoint)).or_default();
        if of.len() < MOST && endpoint.is_serving() {
            of.push(Idle { upstream, endpoint: Arc::clone(endpoint), since: clock::woken() });
        }
    }

    /// A place on a connection of HTTP/2 that has room, and whose endpoint has shown the certificate of this name, if its
    /// name is that of the request.
    pub(crate) fn join(&self, endpoint: &Arc<Endpoint>, server_name: Option<&str>) -> Option<Share> {
        let trunks = self.trunks.borrow();
        let of = trunks.get(&Arc::as_ptr(endpoint))?;
        of.open.iter().filter(|trunk| trunk.server_name() == server_name).find_map(Trunk::share)
    }

    /// The right to open a connection of HTTP/2, or, while somebody else does, the word of how that ends.
    pub(crate) fn opener(&self, endpoint: &Arc<Endpoint>) -> Result<Opener<'_>, Rc<Opening>> {
        let mut trunks = self.trunks.borrow_mut();
        let of = trunks.entry(Arc::as_ptr(endpoint)).or_insert_with(|| Trunks::new(endpoint));
        if let Some(opening) = &of.opening {
            return Err(Rc::clone(opening));
        }
        let opening = Rc::new(Opening::default());
        of.opening = Some(Rc::clone(&opening));
        Ok(Opener { pool: self, endpoint: Arc::clone(endpoint), opening })
    }

    /// Keeps a connection of HTTP/2 for the requests to come.
    pub(crate) fn add(&self, endpoint: &Arc<Endpoint>, trunk: Rc<Trunk>) {
        let mut trunks = self.trunks.borrow_mut();
        let of = trunks.entry(Arc::as_ptr(endpoint)).or_insert_with(|| Trunks::new(endpoint));
        if endpoint.is_serving() {
            of.open.push(trunk);
        }
    }

    /// Closes what has idled too long, was closed by its endpoint, or leads to one that left the plan. Requests that are
    /// under way keep theirs.
    pub(crate) fn sweep(&self) {
        let now = clock::now();
        self.idle.borrow_mut().retain(|_, of| {
            of.retain(|idle| {
                now.saturating_sub(idle.since) < IDLE
                    && idle.endpoint.is_serving()
                    && idle.upstream.socket().is_quiet()
            });
            !of.is_empty()
        });
        self.trunks.borrow_mut().retain(|_, of| {
            let is_serving = of.endpoint.is_serving();
            of.open.retain(|trunk| {
                trunk.examine(now);
                is_serving && trunk.is_open() && trunk.idle_for(now).is_none_or(|idle| idle < IDLE)
            });
            !of.open.is_empty() || of.opening.is_some()
        });
    }
}
