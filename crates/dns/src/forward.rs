//! Names that no zone has are asked elsewhere: once for all who wait for the same, whom it makes sense to ask first, and with
//! what is kept past its time when nobody answers.

mod exchange;
mod probe;
mod question;
mod stream;
mod upstream;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_base::random;
use causeway_ir::Period;
use causeway_ir::dns::{DnsPlan, ForwardOrder, Upstream as Planned};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::answer::{self, Asker, Desk, Outcome};
use crate::cache::{Cache, Key, Lookup};
use crate::clock::Moment;
use crate::metrics::{Metrics, Origin};
use crate::relay;
use crate::seats::{Seat, Seats};
use crate::status::UpstreamStatus;
use crate::table::Table;
use crate::wire::query::{Parsed, Query, parse};
use crate::wire::reply::Reply;
use crate::wire::response::{Response, STALE, Written};
use crate::wire::{LONGEST, code, flag};

use self::question::Question;
pub(crate) use self::question::random as secret_bytes;
pub(crate) use self::upstream::{Error, Upstream};

const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a client waits for a fresh answer when there is an old one (RFC 8767 §5).
const PATIENCE: Duration = Duration::from_millis(1800);
/// What an answer past its time says of the time it may be kept.
const STALE_TTL: u32 = 30;
/// How long a name is not asked for again when nobody answered (RFC 9520).
const PAUSE: Duration = Duration::from_secs(1);
/// Names that are remembered for that at most.
const PAUSED: usize = 10_000;

pub(crate) struct Forwarder {
    pub(crate) cache: Cache,
    upstreams: Arc<[Upstream]>,
    order: ForwardOrder,
    timeout: Duration,
    /// What is being asked, and for a moment what was in vain.
    pending: Mutex<HashMap<Key, Pending>>,
    /// Clients that may still begin to wait, and how many of them one may be.
    permits: Arc<Semaphore>,
    seats: Arc<Seats>,
    /// Questions that may still be asked: a client may leave before the answer to its own is there.
    asks: Arc<Semaphore>,
    /// Of each.
    limit: usize,
    runtime: Handle,
    prefetches: prometheus_client::metrics::counter::Counter,
    probe: probe::Token,
    _prober: AbortOnDropHandle<()>,
}

/// `None` while it is asked; then the reply, if there was any.
type Pending = watch::Receiver<Option<Option<Arc<Reply>>>>;

/// A client that waits.
pub(crate) struct Waiting {
    _permit: OwnedSemaphorePermit,
    _seat: Seat,
}

/// What a question came to.
enum Resolved {
    Fresh(Arc<Reply>),
    Stale(Arc<Reply>),
    Nothing,
}

impl Forwarder {
    /// Begins to look after the resolvers.
    ///
    /// # Errors
    /// If TLS to one of them can't be set up.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(plan: &DnsPlan, upstreams: &[Planned], metrics: &Metrics) -> Result<Arc<Self>, Error> {
        let upstreams: Result<Arc<[Upstream]>, Error> =
            upstreams.iter().map(|planned| Upstream::new(planned, metrics)).collect();
        let upstreams = upstreams?;
        let probe = probe::Token::new();
        let timeout = plan.forward.timeout.map_or(TIMEOUT, Period::get);
        let limit = plan.limits.forwarded.get() as usize;
        let prober = tokio::spawn(probe::run(Arc::clone(&upstreams), probe.clone(), timeout));
        Ok(Arc::new(Self {
            cache: Cache::new(&plan.cache),
            upstreams,
            order: plan.forward.order,
            timeout,
            pending: Mutex::default(),
            permits: Arc::new(Semaphore::new(limit)),
            seats: Seats::new((limit / 2).max(1)),
            asks: Arc::new(Semaphore::new(limit)),
            limit,
            runtime: Handle::current(),
            prefetches: metrics.prefetches.clone(),
            probe,
            _prober: AbortOnDropHandle::new(prober),
        }))
    }

    pub(crate) fn statuses(&self) -> Vec<UpstreamStatus> {
        self.upstreams.iter().map(Upstream::status).collect()
    }

    /// Runs a task of a thread that is not the runtime's.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Lets a client wait; none if too many do, or half of them are the same.
    pub(crate) fn admit(&self, client: IpAddr) -> Option<Waiting> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Waiting { _permit: permit, _seat: self.seats.take(client)? })
    }

    /// Asks again for what is kept and soon past its time, unless there is enough to do.
    pub(crate) fn refresh(self: &Arc<Self>, query: &Query<'_>) {
        if self.asks.available_permits() > self.limit / 2 {
            self.prefetches.inc();
            self.join(Question::of(query));
        } else {
            self.cache.not_refreshed(&Key::of(query));
        }
    }

    async fn resolve(self: &Arc<Self>, query: &Query<'_>) -> Resolved {
        if self.probe.is_back(query.name.as_bytes(), &self.upstreams) {
            return Resolved::Nothing;
        }
        let stale = match self.cache.find(query, Moment::now().millis, |_, _| ()) {
            Lookup::Stale(reply) => Some(reply),
            _ => None,
        };
        let mut pending = self.join(Question::of(query));
        let ended = async {
            let found = pending.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
            found.flatten()
        };
        let Some(stale) = stale else {
            return ended.await.map_or(Resolved::Nothing, Resolved::Fresh);
        };
        let patience =
            if self.upstreams.iter().any(Upstream::is_healthy) { PATIENCE } else { Duration::ZERO };
        match timeout(patience, ended).await {
            Ok(Some(reply)) if !reply.is_failure() => Resolved::Fresh(reply),
            _ => Resolved::Stale(stale),
        }
    }

    /// Waits with those who ask the same, or begins to ask.
    fn join(self: &Arc<Self>, question: Question) -> Pending {
        let mut all = lock(&self.pending);
        if let Some(pending) = all.get(&question.key) {
            return pending.clone();
        }
        let Ok(permit) = Arc::clone(&self.asks).try_acquire_owned() else {
            self.cache.not_refreshed(&question.key);
            return watch::channel(Some(None)).1;
        };
        let (outcome_tx, outcome_rx) = watch::channel(None);
        all.insert(question.key.clone(), outcome_rx.clone());
        let forwarder = Arc::clone(self);
        self.runtime.spawn(async move {
            let reply = forwarder.ask(&question).await;
            drop(permit);
            let useful = reply.as_ref().is_some_and(|reply| !reply.is_failure());
            match &reply {
                Some(reply) if useful => forwarder.cache.insert(&question.key, reply, Moment::now().millis),
                _ => forwarder.cache.not_refreshed(&question.key),
            }
            outcome_tx.send_replace(Some(reply));
            if !useful && lock(&forwarder.pending).len() < PAUSED {
                sleep(PAUSE).await;
            }
            lock(&forwarder.pending).remove(&question.key);
        });
        outcome_rx
    }

    /// Asks one after the other until somebody knows; the last failure if nobody does.
    async fn ask(&self, question: &Question) -> Option<Arc<Reply>> {
        let mut failure = None;
        for upstream in self.candidates() {
            match exchange::ask(upstream, question, self.timeout).await {
                Ok(reply) if reply.is_failure() => failure = Some(Arc::new(reply)),
                Ok(reply) => return Some(Arc::new(reply)),
                Err(error) => tracing::debug!(upstream = %upstream.address, %error, "no answer"),
            }
        }
        failure
    }

    /// Whom to ask first, second, and so on.
    fn candidates(&self) -> Vec<&Upstream> {
        let mut all: Vec<&Upstream> = self.upstreams.iter().filter(|upstream| !upstream.loops()).collect();
        if self.order == ForwardOrder::Fastest {
            all.sort_by_key(|upstream| upstream.latency());
            // The others are tried now and then: they may have become faster.
            if all.len() > 1 && random::below(32) == 0 {
                let other = 1 + random::below(all.len() as u64 - 1) as usize;
                all.swap(0, other);
            }
        }
        all.sort_by_key(|upstream| !upstream.is_healthy());
        all
    }
}

/// Answers a message that only another resolver can answer. `packet` is known to be a question.
pub(crate) async fn answer(
    desk: &Desk,
    table: &Table,
    asker: Asker,
    packet: &[u8],
    waiting: Waiting,
) -> Option<Vec<u8>> {
    let Parsed::Query(query) = parse(packet) else { return None };
    let resolved = table.forwarder.resolve(&query).await;
    drop(waiting);
    let mut out = vec![0; if asker.udp { query.longest_datagram() } else { LONGEST }];
    let written = write(desk, table, asker, Moment::now(), &query, resolved, &mut out)?;
    out.truncate(written.len);
    Some(out)
}

/// The same while too many wait: nobody is asked, but what is kept past its time is better than nothing.
pub(crate) fn decline(
    desk: &Desk,
    table: &Table,
    asker: Asker,
    now: Moment,
    packet: &[u8],
    out: &mut [u8],
) -> Outcome {
    let Parsed::Query(query) = parse(packet) else { return Outcome::Silence };
    let resolved = match table.forwarder.cache.find(&query, now.millis, |_, _| ()) {
        Lookup::Stale(reply) => Resolved::Stale(reply),
        _ => Resolved::Nothing,
    };
    let most = if asker.udp { query.longest_datagram().min(out.len()) } else { out.len() };
    let written = write(desk, table, asker, now, &query, resolved, &mut out[..most]);
    written.map_or(Outcome::Silence, Outcome::Written)
}

fn write(
    desk: &Desk,
    table: &Table,
    asker: Asker,
    now: Moment,
    query: &Query<'_>,
    resolved: Resolved,
    out: &mut [u8],
) -> Option<Written> {
    let view = table.view(asker.address)?;
    let (mut tail, _) = answer::tail(&desk.secret, query.edns, asker.address, now);
    let (written, origin) = match resolved {
        Resolved::Fresh(reply) => {
            let most = table.forwarder.cache.max_ttl();
            (relay::answer(&reply, &view.zones, query, tail, 0, most, out)?, Origin::Upstream)
        }
        Resolved::Stale(reply) => {
            tail.error = Some(STALE);
            (relay::answer(&reply, &view.zones, query, tail, 0, STALE_TTL, out)?, Origin::Stale)
        }
        Resolved::Nothing => {
            let mut response = Response::to(query, tail, out);
            response.set(flag::RA);
            response.code(code::SERVFAIL);
            (response.finish()?, Origin::Upstream)
        }
    };
    view.counts.count(asker.worker, query.kind, written.code, origin);
    desk.log.write(&view.counts.name, asker, query, written.code, origin);
    Some(written)
}

#[cfg(test)]
mod tests;
