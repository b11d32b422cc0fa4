//! Chance that can be repeated: set `CAUSEWAY_CRASH_SEED` to the seed that a run printed.

use std::time::Duration;

/// A small generator (splitmix64); good enough to choose by.
pub struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    pub fn new() -> Self {
        let seed = match std::env::var("CAUSEWAY_CRASH_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        };
        Self { seed, state: seed }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Dice of their own for another task.
    pub fn split(&mut self) -> Self {
        let seed = self.next();
        Self { seed, state: seed }
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn below_duration(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.below(limit.as_micros() as u64))
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
