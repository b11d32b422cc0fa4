//! When memory is given back to the system: after many connections have ended.

/// Closed connections that make it worth while.
const WORTH: u64 = 1000;

/// Counts what ended since memory was given back last.
#[derive(Default)]
pub(crate) struct Memory {
    given_back_at: u64,
    last: u64,
}

impl Memory {
    /// Takes the number of connections that have ended so far and says whether it is time: many have ended since the
    /// last time, and few since the last question, so that a storm is not disturbed by it.
    pub(crate) fn is_time(&mut self, ended: u64) -> bool {
        let this_round = ended.saturating_sub(self.last);
        self.last = ended;
        let is_time = ended.saturating_sub(self.given_back_at) >= WORTH && this_round < WORTH / 10;
        if is_time {
            self.given_back_at = ended;
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_end_of_a_storm() {
        let mut memory = Memory::default();
        assert!(!memory.is_time(50), "too few");
        assert!(!memory.is_time(5000), "a storm");
        assert!(memory.is_time(5010));
        assert!(!memory.is_time(5010), "nothing more");
    }
}
