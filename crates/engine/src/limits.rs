//! What the engine as a whole may take: connections at a time, in all and from one client address, and new ones a second.
//! Every core asks for every connection, so there are atomics only, but for the addresses, and those only under a limit.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_ir::Limit;
use rustix::process::{Resource, getrlimit};

use crate::close_reason::CloseReason;

/// Descriptors that are kept for listeners, logs, pipes and the admin socket.
const RESERVED_DESCRIPTORS: u64 = 256;

/// Parts of the map of client addresses, so that cores seldom meet in one.
const SHARDS: usize = 16;

/// The limits in force.
pub(crate) struct Limits {
    connections: AtomicU32,
    /// From one client address; 0 is no limit.
    per_source: AtomicU32,
    sources: Arc<Sources>,
    /// Nanoseconds between two new connections; 0 is no limit.
    interval: AtomicU64,
    /// When the next connection is due if they came evenly.
    due: AtomicU64,
    handshake_millis: AtomicU64,
    start: std::time::Instant,
}

impl Limits {
    pub(crate) fn new(plan: &causeway_ir::Limits) -> Self {
        let limits = Self {
            connections: AtomicU32::new(0),
            per_source: AtomicU32::new(0),
            sources: Arc::default(),
            interval: AtomicU64::new(0),
            due: AtomicU64::new(0),
            handshake_millis: AtomicU64::new(0),
            start: std::time::Instant::now(),
        };
        limits.set(plan);
        limits
    }

    pub(crate) fn set(&self, plan: &causeway_ir::Limits) {
        let possible = by_descriptors();
        let wanted = plan.connections.map_or(possible, Limit::get);
        self.connections.store(wanted.min(possible), Relaxed);
        self.per_source.store(plan.connections_per_source.map_or(0, Limit::get), Relaxed);
        let interval =
            plan.new_connections_per_second.map_or(0, |rate| 1_000_000_000 / u64::from(rate.get()));
        self.interval.store(interval, Relaxed);
        self.handshake_millis.store(plan.handshake_timeout.get().as_millis() as u64, Relaxed);
    }

    /// Connections at a time: the plan's limit, or what the descriptors allow if that is less.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_millis.load(Relaxed))
    }

    /// Counts one more connection from this address for as long as the answer lives; an error when it has too many.
    pub(crate) fn enter(&self, address: IpAddr) -> Result<Option<FromSource>, CloseReason> {
        match self.per_source.load(Relaxed) {
            0 => Ok(None),
            limit => Sources::enter(&self.sources, address.to_canonical(), limit).map(Some),
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

/// How many connections each client address has. Those of before a limit was set are not counted.
#[derive(Default)]
struct Sources {
    hasher: RandomState,
    shards: [Mutex<HashMap<IpAddr, u32>>; SHARDS],
}

impl Sources {
    fn enter(self: &Arc<Self>, address: IpAddr, limit: u32) -> Result<FromSource, CloseReason> {
        let mut counts = lock(self.shard(address));
        let count = counts.entry(address).or_default();
        if *count >= limit {
            return Err(CloseReason::SourceLimit);
        }
        *count += 1;
        Ok(FromSource { sources: Arc::clone(self), address })
    }

    fn shard(&self, address: IpAddr) -> &Mutex<HashMap<IpAddr, u32>> {
        &self.shards[self.hasher.hash_one(address) as usize % SHARDS]
    }
}

/// A counted connection of a client address.
pub(crate) struct FromSource {
    sources: Arc<Sources>,
    address: IpAddr,
}

impl Drop for FromSource {
    fn drop(&mut self) {
        let mut counts = lock(self.sources.shard(self.address));
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Each connection takes a descriptor on either side.
fn by_descriptors() -> u32 {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::from(u32::MAX));
    u32::try_from((descriptors.saturating_sub(RESERVED_DESCRIPTORS) / 2).max(1)).unwrap_or(u32::MAX)
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
        let first = limits.enter(one).ok().flatten().expect("room");
        let _second = limits.enter(one).ok().flatten().expect("room");
        assert!(matches!(limits.enter(mapped), Err(CloseReason::SourceLimit)), "the same client by IPv6");
        let others = limits.enter(other).ok().flatten().expect("another client has its own");
        drop((first, others));
        assert!(limits.enter(one).is_ok());
        let known: usize = limits.sources.shards.iter().map(|shard| lock(shard).len()).sum();
        assert_eq!(known, 1, "an address without connections takes no room");
    }

    #[test]
    fn never_promises_more_connections_than_descriptors() {
        let plan =
            causeway_ir::Limits { connections: Limit::new(u32::MAX), ..causeway_ir::Limits::default() };
        assert!(Limits::new(&plan).connections() <= by_descriptors());
        let plan = causeway_ir::Limits { connections: Limit::new(3), ..causeway_ir::Limits::default() };
        assert_eq!(Limits::new(&plan).connections(), 3);
    }
}
