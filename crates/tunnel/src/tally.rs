//! What a tunnel has carried. Both ends count for themselves; the host's figures are the ones people see.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use causeway_ir::tunnel::Counters;
use causeway_link::Traffic;

/// The live figures of a tunnel.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    open: AtomicU64,
    opened: AtomicU64,
    refused: AtomicU64,
    limited: AtomicU64,
    pub(crate) traffic: Arc<Traffic>,
    last_error: Mutex<Option<String>>,
}

impl Tally {
    /// Counts a stream for as long as what is given back lives, unless there are as many as there may be.
    pub(crate) fn enter(self: &Arc<Self>, limit: u32) -> Option<OpenStream> {
        let limit = u64::from(limit);
        let enter = |open: u64| (open < limit).then_some(open + 1);
        self.open.fetch_update(Relaxed, Relaxed, enter).ok().map(|_| OpenStream(self.clone()))
    }

    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// One was refused because of a limit.
    pub(crate) fn limited(&self) {
        self.limited.fetch_add(1, Relaxed);
        self.refused();
    }

    pub(crate) fn failed(&self, error: String) {
        *lock(&self.last_error) = Some(error);
    }

    /// Figures of the host end, where what comes in over the link goes to the host.
    pub(crate) fn snapshot(&self) -> Counters {
        Counters {
            streams: self.open.load(Relaxed),
            opened: self.opened.load(Relaxed),
            refused: self.refused.load(Relaxed),
            limited: self.limited.load(Relaxed),
            to_host: self.traffic.received(),
            to_container: self.traffic.sent(),
            last_error: lock(&self.last_error).clone(),
        }
    }
}

/// One open stream, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(pub(crate) Arc<Tally>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_enter_than_may() {
        let tally = Arc::new(Tally::default());
        let first = tally.enter(2).expect("the first");
        let _second = tally.enter(2).expect("the second");
        assert!(tally.enter(2).is_none(), "the third");
        drop(first);
        assert!(tally.enter(2).is_some(), "a place is free again");
    }
}
