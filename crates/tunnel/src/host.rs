//! The host end: it dials the client end, tells it what to listen on, and connects the streams that come to the
//! services of the host. It dials for ever; whatever breaks is made again, and the tunnels with it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_ir::tunnel::{Counters, LinkState, Tunnel, TunnelId, TunnelState};
use causeway_link::{Authority, Link};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, timeout};
use tokio_util::task::TaskTracker;

use crate::control::{Listen, Listener};
use crate::places::Places;

mod data_link;
mod exit;
mod listening;
mod open;
mod session;

use exit::Exit;
use listening::BoundPorts;

/// How often a drain looks whether the last stream has ended.
const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// How long the links may take to end in order.
const CLOSING: Duration = Duration::from_secs(3);

/// What the host end needs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the client end takes the control connection.
    pub control: SocketAddr,
    /// Where it takes data connections.
    pub data: SocketAddr,
    /// The pair's authority.
    pub authority: Authority,
    /// Data connections to share the streams among; each can keep one core busy.
    pub data_links: usize,
    /// The age at which the client end's certificate, and with it the data connections, are renewed.
    pub renewal: Duration,
}

impl Options {
    /// The usual settings for a client end at these addresses.
    pub fn new(control: SocketAddr, data: SocketAddr, authority: Authority) -> Self {
        Self { control, data, authority, data_links: 2, renewal: Duration::from_hours(12) }
    }
}

/// How the link and its tunnels stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The link.
    pub link: LinkState,
    /// Each tunnel that is asked for.
    pub tunnels: BTreeMap<TunnelId, TunnelState>,
}

/// The host end. Its tasks end when it is dropped.
pub struct Host {
    end: Arc<HostEnd>,
    addresses: watch::Sender<(SocketAddr, SocketAddr)>,
    task: JoinHandle<()>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Host {
    /// Starts dialling, on the current runtime.
    pub fn start(options: Options) -> Self {
        let (addresses, at) = watch::channel((options.control, options.data));
        let end = Arc::new(HostEnd::new(&options));
        let task = tokio::spawn(session::keep(end.clone(), at));
        Self { end, addresses, task }
    }

    /// Makes `tunnels` the ones that are carried. Streams of a tunnel that stays are not touched. Before the first call
    /// the client end keeps what it has from a host before this one.
    pub fn carry(&self, tunnels: Vec<Tunnel>) {
        let mut exits = lock(&self.end.exits);
        self.end.asked.store(true, Relaxed);
        let mut old = std::mem::take(&mut *exits);
        for tunnel in tunnels {
            let id = tunnel.id;
            let exit = match old.remove(&id) {
                Some(exit) => {
                    exit.change(tunnel);
                    exit
                }
                None => Exit::start(&self.end, tunnel),
            };
            exits.insert(id, exit);
        }
        drop(exits);
        self.end.changed();
    }

    /// The client end is at other addresses now.
    pub fn redial(&self, control: SocketAddr, data: SocketAddr) {
        self.addresses.send_if_modified(|addresses| {
            let moved = *addresses != (control, data);
            *addresses = (control, data);
            moved
        });
    }

    /// How things stand; it changes with states, not with every stream.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.end.status.subscribe()
    }

    /// What a tunnel has carried.
    pub fn counters(&self, tunnel: TunnelId) -> Option<Counters> {
        let mut counters = lock(&self.end.exits).get(&tunnel).map(|exit| exit.tally.snapshot())?;
        // Those that the client end refused never came here.
        let limited = lock(&self.end.observed).limited.get(&tunnel).copied().unwrap_or_default();
        counters.limited += limited;
        counters.refused += limited;
        Some(counters)
    }

    /// How many streams are open, of all tunnels.
    pub fn streams(&self) -> usize {
        lock(&self.end.links).iter().map(|link| link.len()).sum()
    }

    /// Has the client end close its ports, lets streams end within the limit, then closes everything in order.
    ///
    /// # Cancellation
    /// Dropping the future closes everything at once.
    pub async fn drain(mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        self.carry(Vec::new());
        let mut look = interval(DRAIN_LOOK);
        while Instant::now() < deadline && !self.end.is_quiet() {
            look.tick().await;
        }
        self.task.abort();
        // It was told to end, which is all that there is to know.
        let _ = (&mut self.task).await;
        self.end.tasks.close();
        // A client end that does not answer is not waited for.
        let _ = timeout(CLOSING, self.end.tasks.wait()).await;
    }
}

/// What the tasks of the host end share.
struct HostEnd {
    authority: Authority,
    data_links: usize,
    renewal: Duration,
    exits: Mutex<BTreeMap<TunnelId, Arc<Exit>>>,
    /// Whether anybody has said what to carry.
    asked: AtomicBool,
    links: Mutex<Vec<Arc<Link>>>,
    observed: Mutex<Observed>,
    /// What the client end is told has changed.
    changed: watch::Sender<()>,
    /// Held from looking at how things stand until it is told, so that nobody tells what was true before.
    publishing: Mutex<()>,
    status: watch::Sender<Status>,
    /// The places for streams that this process has.
    places: Places,
    bound_ports: BoundPorts,
    /// The drivers of links.
    tasks: TaskTracker,
}

/// What is known of the other end.
#[derive(Default)]
struct Observed {
    link: LinkState,
    /// Data links that the client end has.
    links_there: usize,
    listeners: BTreeMap<TunnelId, Result<Listener, String>>,
    /// How many clients the client end refused because of a limit.
    limited: BTreeMap<TunnelId, u64>,
}

impl Observed {
    /// Data can be carried once both ends know a link for it. Each hears of a link's end by itself, and what one says may
    /// be older than what the other knows.
    fn weigh(&mut self, has_links: bool) {
        if has_links && self.links_there > 0 {
            self.link = LinkState::Up;
        } else if self.link == LinkState::Up {
            let error = Some("the data connections are gone".to_owned());
            self.link = LinkState::Connecting { attempt: 0, error };
        }
    }
}

impl HostEnd {
    fn new(options: &Options) -> Self {
        Self {
            authority: options.authority.clone(),
            data_links: options.data_links.max(1),
            renewal: options.renewal,
            exits: Mutex::default(),
            asked: AtomicBool::new(false),
            links: Mutex::default(),
            observed: Mutex::default(),
            changed: watch::channel(()).0,
            publishing: Mutex::default(),
            status: watch::channel(Status::default()).0,
            places: Places::of_this_process(),
            bound_ports: BoundPorts::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// What the client end should listen on, once somebody has said so.
    fn listens(&self) -> Option<Vec<Listen>> {
        let exits = lock(&self.exits);
        self.asked.load(Relaxed).then(|| exits.values().map(|exit| exit.listen()).collect())
    }

    /// Something that the client end or the status depends on has changed.
    fn changed(&self) {
        self.changed.send_replace(());
        self.publish();
    }

    fn observe(&self, change: impl FnOnce(&mut Observed)) {
        change(&mut lock(&self.observed));
        self.publish();
    }

    /// A data link has come or gone.
    fn links_changed(&self) {
        self.observe(|observed| observed.weigh(self.has_links()));
    }

    fn publish(&self) {
        let _publishing = lock(&self.publishing);
        let status = {
            let observed = lock(&self.observed);
            // What the client end said before the link broke is not true any more: it refuses everybody now.
            let listener = |id| observed.listeners.get(id).filter(|_| observed.link == LinkState::Up);
            let tunnels =
                lock(&self.exits).iter().map(|(id, exit)| (*id, exit.state(listener(id)))).collect();
            Status { link: observed.link.clone(), tunnels }
        };
        self.status.send_if_modified(|known| {
            let differs = *known != status;
            *known = status;
            differs
        });
    }

    /// Whether a data link is there that streams may use.
    fn has_links(&self) -> bool {
        lock(&self.links).iter().any(|link| link.is_usable())
    }

    /// Whether the client end listens on nothing and no stream is left, as far as can be known.
    fn is_quiet(&self) -> bool {
        let silent = {
            let observed = lock(&self.observed);
            observed.listeners.is_empty() || observed.link != LinkState::Up
        };
        silent && lock(&self.links).iter().all(|link| link.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end without anybody who dials.
    pub(super) fn silent_end() -> Arc<HostEnd> {
        Arc::new(HostEnd::new(&Options::new(
            ([127, 0, 0, 1], 1).into(),
            ([127, 0, 0, 1], 1).into(),
            Authority::new().expect("keys"),
        )))
    }

    #[test]
    fn the_last_state_is_the_one_that_is_told() {
        let end = silent_end();
        for turn in 0..2_000 {
            let wanted = if turn % 2 == 0 { LinkState::Up } else { LinkState::default() };
            std::thread::scope(|scope| {
                // Publishes what was true a moment before, if it is not careful.
                scope.spawn(|| end.changed());
                scope.spawn(|| end.observe(|observed| observed.link = wanted.clone()));
            });
            assert_eq!(end.status.borrow().link, wanted, "turn {turn}");
        }
    }
}
