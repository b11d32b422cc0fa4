//! Memory that a crowd took is given back to the system when the crowd has gone: the allocator keeps what is freed in the
//! middle of its heaps until it is asked.

/// Gives the free pages of the heaps back to the system. It may take some milliseconds.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library's allocator has no other way to be asked")]
pub fn give_back() {
    unsafe extern "C" {
        // SAFETY: it takes a number and touches nothing but the allocator's own state, under its own locks.
        safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    malloc_trim(0);
}

/// Other allocators give memory back by themselves or not at all.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Bytes that the process has in memory.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("readable");
        let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        pages * 4096
    }

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
