//! What the engine as a whole may take: connections at a time, in all and from one client address, new ones a second, and
//! bytes of openings that are not complete. Every core asks for every connection, so there are atomics only, but for the
//! client addresses, which stand in parts of a map.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use causeway_base::{Budget, Share, Throttle, capacity};
use causeway_ir::Limit;

use crate::close_reason::CloseReason;

/// Descriptors that are kept for listeners, logs, pipes, health checks, the admin socket and whatever else runs in the
/// process: a part of all, and at least this many.
const RESERVED_DESCRIPTORS: u64 = 256;
const RESERVED_PART: u64 = 4;
/// What a connection may take of memory: an idle one takes a part of it here and its two sockets in the kernel, which is
/// counted for the same control group.
const MEMORY_PER_CONNECTION: u64 = 16 << 10;
/// The part of memory that openings which are not complete may take.
const HANDSHAKE_PART: u64 = 8;
/// A limit that refuses is told once in this time.
const TELL: Duration = Duration::from_secs(10);

/// A connection, or bytes of its opening, counted for a client address.
pub(crate) type FromSource = Share<IpAddr>;

/// The limits in force.
pub(crate) struct Limits {
    connections: AtomicU32,
    /// From one client address; 0 is as many as are left for all others.
    per_source: AtomicU32,
    sources: Arc<Budget<IpAddr>>,
    /// Sessions of datagrams, of which there may be half as many as connections: whose address can be made up is held back
    /// by no share of an address, and must leave room for connections.
    sessions: Arc<Budget<()>>,
    /// Bytes of openings that are not complete.
    handshakes: Arc<Budget<IpAddr>>,
    /// Nanoseconds between two new connections; 0 is no limit.
    interval: AtomicU64,
    /// When the next connection is due if they came evenly.
    due: AtomicU64,
    handshake_millis: AtomicU64,
    start: std::time::Instant,
    told: Throttle,
}

impl Limits {
    pub(crate) fn new(plan: &causeway_ir::Limits) -> Self {
        let memory = capacity::memory();
        let possible = by_descriptors(capacity::descriptors()).min(memory / MEMORY_PER_CONNECTION).max(1);
        let limits = Self {
            connections: AtomicU32::new(0),
            per_source: AtomicU32::new(0),
            sources: Budget::new(possible),
            sessions: Budget::new(possible),
            handshakes: Budget::new(memory / HANDSHAKE_PART),
            interval: AtomicU64::new(0),
            due: AtomicU64::new(0),
            handshake_millis: AtomicU64::new(0),
            start: std::time::Instant::now(),
            told: Throttle::new(TELL),
        };
        limits.set(plan);
        limits
    }

    pub(crate) fn set(&self, plan: &causeway_ir::Limits) {
        let possible = u32::try_from(self.sources.limit()).unwrap_or(u32::MAX);
        let wanted = plan.connections.map_or(possible, Limit::get);
        self.connections.store(wanted.min(possible), Relaxed);
        self.sessions.set_limit(u64::from(wanted.min(possible)));
        self.per_source.store(plan.connections_per_source.map_or(0, Limit::get), Relaxed);
        let interval =
            plan.new_connections_per_second.map_or(0, |rate| 1_000_000_000 / u64::from(rate.get()));
        self.interval.store(interval, Relaxed);
        self.handshake_millis.store(plan.handshake_timeout.get().as_millis() as u64, Relaxed);
    }

    /// Connections at a time: the plan's limit, or what descriptors and memory allow if that is less.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_millis.load(Relaxed))
    }

    /// Counts one more connection from this address for as long as the answer lives; an error when it has too many: more
    /// than the plan allows or, if that says nothing, more than are left for all others.
    pub(crate) fn enter(&self, address: IpAddr) -> Result<FromSource, CloseReason> {
        let most = match self.per_source.load(Relaxed) {
            0 => None,
            limit => Some(u64::from(limit)),
        };
        let entered = self.sources.take_within(address.to_canonical(), 1, most);
        entered.ok_or(CloseReason::SourceLimit)
    }

    /// Counts one more session of datagrams for as long as the answer lives.
    pub(crate) fn begin_session(&self) -> Result<Share<()>, CloseReason> {
        self.sessions.take((), 1).ok_or(CloseReason::ConnectionLimit)
    }

    /// Room for the opening of a connection from this address, to be grown.
    pub(crate) fn handshake(&self, address: IpAddr) -> Option<FromSource> {
        self.handshakes.take(address.to_canonical(), 0)
    }

    /// Logs that a limit refuses connections, now and then.
    pub(crate) fn tell(&self, listener: &str, reason: CloseReason) {
        if reason.is_limit()
            && let Some(refused) = self.told.pass()
        {
            tracing::warn!(listener, reason = reason.as_str(), refused, "connections are refused at a limit");
        }
    }

    /// Whether one more connection fits into this second; a second's worth may come at once.
    pub(crate) fn admit(&self) -> bool {
        let interval = self.interval.load(Relaxed);
        if interval == 0 {
            return true;
        }
        self.admit_at(self.start.elapsed().as_nanos() as u64, interval)
    }

    fn admit_at(&self, now: u64, interval: u64) -> bool {
        const BURST: u64 = 1_000_000_000;
        let next = |due: u64| {
            let due = due.max(now) + interval;
            (due <= now + BURST.max(interval)).then_some(due)
        };
        self.due.fetch_update(Relaxed, Relaxed, next).is_ok()
    }
}

/// Each connection takes a descriptor on either side.
fn by_descriptors(descriptors: u64) -> u64 {
    descriptors.saturating_sub(RESERVED_DESCRIPTORS.max(descriptors / RESERVED_PART)) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_a_second_of_connections_at_once_and_then_at_the_rate() {
        let limits = Limits::new(&causeway_ir::Limits {
            new_connections_per_second: Limit::new(10),
            ..causeway_ir::Limits::default()
        });
        let interval = limits.interval.load(Relaxed);
        let start = 5_000_000_000;
        let admitted = (0..100).filter(|_| limits.admit_at(start, interval)).count();
        assert_eq!(admitted, 10);
        let later = start + 200_000_000;
        assert_eq!((0..100).filter(|_| limits.admit_at(later, interval)).count(), 2);
    }

    #[test]
    fn counts_each_address_by_itself_and_forgets_those_that_left() {
        let limits = Limits::new(&causeway_ir::Limits {
            connections_per_source: Limit::new(2),
            ..causeway_ir::Limits::default()
        });
        let [one, other, mapped] =
            ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1"].map(|text| text.parse().unwrap());
        let first = limits.enter(one).expect("room");
        let _second = limits.enter(one).expect("room");
        assert!(matches!(limits.enter(mapped), Err(CloseReason::SourceLimit)), "the same client by IPv6");
        let others = limits.enter(other).expect("another client has its own");
        drop((first, others));
        assert!(limits.enter(one).is_ok());
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let limits = Limits::new(&causeway_ir::Limits::default());
        limits.sources.set_limit(100);
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let crowd: Vec<_> = std::iter::from_fn(|| limits.enter(one).ok()).collect();
        assert_eq!(crowd.len(), 50);
        assert!(limits.enter(other).is_ok());
        limits.handshakes.set_limit(100_000);
        let mut half = limits.handshake(one).expect("nothing yet");
        assert!(half.grow_to(50_000) && !limits.handshake(one).expect("nothing yet").grow_to(1_000));
        assert!(limits.handshake(other).expect("nothing yet").grow_to(1_000));
    }

    #[test]
    fn never_promises_more_connections_than_descriptors_and_memory() {
        let plan =
            causeway_ir::Limits { connections: Limit::new(u32::MAX), ..causeway_ir::Limits::default() };
        let most = u64::from(Limits::new(&plan).connections());
        assert!(most <= by_descriptors(capacity::descriptors()));
        assert!(most <= capacity::memory() / MEMORY_PER_CONNECTION);
        let plan = causeway_ir::Limits { connections: Limit::new(3), ..causeway_ir::Limits::default() };
        assert_eq!(Limits::new(&plan).connections(), 3);
        assert_eq!([100, 1024, 4096].map(by_descriptors), [0, 384, 1536]);
    }
}
