//! What is known of one endpoint; shared by all cores and kept while its address stays in the cluster.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use causeway_ir::Address;

use crate::clock;
use crate::metrics::{Active, HasActive, InlineCounter};

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    pub(crate) active: Active,
    pub(crate) total: InlineCounter,
    /// Attempts to connect in a row that failed.
    pub(super) failures: AtomicU32,
    /// Connections in a row that it reset before it said a word.
    pub(super) resets: AtomicU32,
    pub(super) rested_until: AtomicU64,
    /// When it began, or began again, to take connections.
    pub(crate) since: AtomicU64,
    healthy: AtomicBool,
    /// The newest plan has it, and it answers or still does.
    serving: AtomicBool,
    /// What stands for it in sessions, made when it is first needed.
    session_number: OnceLock<[u8; 8]>,
}

impl HasActive for Endpoint {
    fn active(&self) -> &Active {
        &self.active
    }
}

impl Endpoint {
    pub(super) fn new(address: Address, since: u64) -> Self {
        Self {
            address,
            active: Active::default(),
            total: InlineCounter::default(),
            failures: AtomicU32::new(0),
            resets: AtomicU32::new(0),
            rested_until: AtomicU64::new(0),
            since: AtomicU64::new(since),
            healthy: AtomicBool::new(true),
            serving: AtomicBool::new(true),
            session_number: OnceLock::new(),
        }
    }

    /// What stands for it in sessions.
    pub(crate) fn session_number(&self, make: impl FnOnce() -> [u8; 8]) -> [u8; 8] {
        *self.session_number.get_or_init(make)
    }

    pub(crate) fn is_ejected(&self, now: u64) -> bool {
        self.rested_until.load(Relaxed) > now
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.healthy.load(Relaxed)
    }

    /// Whether the newest plan still has traffic for it.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(Relaxed)
    }

    pub(super) fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Relaxed);
    }

    /// Takes the word of an active check.
    pub(crate) fn set_healthy(&self, healthy: bool) {
        if !self.healthy.swap(healthy, Relaxed) && healthy {
            self.since.store(clock::now(), Relaxed);
        }
    }

    /// It took a connection.
    pub(crate) fn succeeded(&self) {
        clear(&self.failures);
    }

    /// It said something.
    pub(crate) fn answered(&self) {
        clear(&self.resets);
    }
}

fn clear(failures: &AtomicU32) {
    // Most of the time it is zero already: do not take the cache line from the other cores for nothing.
    if failures.load(Relaxed) != 0 {
        failures.store(0, Relaxed);
    }
}
