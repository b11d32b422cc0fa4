//! Memory that a crowd of streams took is given back to the system when the crowd has gone. The allocator keeps what is
//! freed in the middle of its heap, and thousands of short-lived streams leave it there.

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

/// Gives the free pages of the heap back to the system. It may take some milliseconds.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library's allocator has no other way to be asked")]
pub(crate) fn give_back() {
    unsafe extern "C" {
        // SAFETY: it takes a number and touches nothing but the allocator's own state, under its own locks.
        safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    malloc_trim(0);
}

/// Other allocators give memory back by themselves or not at all.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn give_back() {}

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

    /// Bytes that the process has in memory.
    #[cfg(target_env = "gnu")]
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("readable");
        let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        pages * 4096
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn what_was_freed_in_the_middle_of_the_heap_is_given_back() {
        let pieces: Vec<Box<[u8]>> = (0..40_000).map(|_| vec![1; 1000].into()).collect();
        // Something behind them, so that the heap can't simply end earlier.
        let behind: Box<[u8]> = vec![1; 1000].into();
        let held = resident();
        drop(pieces);
        give_back();
        assert!(held.saturating_sub(resident()) > 20 << 20, "{} then, {} now", held, resident());
        drop(behind);
    }
}
