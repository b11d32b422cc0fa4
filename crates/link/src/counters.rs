//! What a tunnel has carried. Both ends count for themselves; the host's figures are the ones people see.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A tunnel's figures at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Streams open now.
    pub streams: u64,
    /// Streams opened so far.
    pub opened: u64,
    /// Streams refused so far.
    pub refused: u64,
    /// Bytes carried to the host.
    pub to_host: u64,
    /// Bytes carried to containers.
    pub to_container: u64,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// The live figures of a tunnel.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) open: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) inbound: AtomicU64,
    pub(crate) outbound: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Tally {
    pub(crate) fn failed(&self, error: String) {
        *crate::mux::lock(&self.last_error) = Some(error);
    }

    /// Figures of the host's end, where what comes in over the link goes to the host.
    pub(crate) fn snapshot(&self) -> Counters {
        Counters {
            streams: self.open.load(Relaxed),
            opened: self.opened.load(Relaxed),
            refused: self.refused.load(Relaxed),
            to_host: self.inbound.load(Relaxed),
            to_container: self.outbound.load(Relaxed),
            last_error: crate::mux::lock(&self.last_error).clone(),
        }
    }
}
