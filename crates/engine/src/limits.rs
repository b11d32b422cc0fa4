//! What the engine as a whole may take: connections at a time and new ones a second. Atomics only: every core asks
//! for every connection.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use causeway_ir::Limit;
use rustix::process::{Resource, getrlimit};

/// Descriptors that are kept for listeners, logs, pipes and the admin socket.
const RESERVED_DESCRIPTORS: u64 = 256;

/// The limits in force.
pub(crate) struct Limits {
    connections: AtomicU32,
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
    fn never_promises_more_connections_than_descriptors() {
        let plan =
            causeway_ir::Limits { connections: Limit::new(u32::MAX), ..causeway_ir::Limits::default() };
        assert!(Limits::new(&plan).connections() <= by_descriptors());
        let plan = causeway_ir::Limits { connections: Limit::new(3), ..causeway_ir::Limits::default() };
        assert_eq!(Limits::new(&plan).connections(), 3);
    }
}
