//! When memory is given back to the system: after a crowd of streams has gone.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Fewer streams are not worth the walk through the heap.
const CROWD: usize = 1000;

/// The most streams that a link had at a time since memory was given back.
#[derive(Debug, Default)]
pub(crate) struct Crowd(AtomicUsize);

impl Crowd {
    pub(crate) fn grew_to(&self, streams: usize) {
        self.0.fetch_max(streams, Relaxed);
    }

    /// Whether most of a crowd has gone, now that so many streams are left; says so once.
    pub(crate) fn has_gone(&self, streams: usize) -> bool {
        let gone = |most: usize| (most >= CROWD && streams < most / 8).then_some(streams);
        self.0.fetch_update(Relaxed, Relaxed, gone).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_goes_once_and_a_few_are_no_crowd() {
        let crowd = Crowd::default();
        crowd.grew_to(CROWD - 1);
        assert!(!crowd.has_gone(0), "a few");
        crowd.grew_to(4 * CROWD);
        crowd.grew_to(5);
        assert!(!crowd.has_gone(CROWD), "most are still here");
        assert!(crowd.has_gone(3));
        assert!(!crowd.has_gone(3), "it was said");
    }
}
