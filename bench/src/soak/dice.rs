//! Cheap numbers by chance, different for each run, so that no two soaks do the same.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Self {
        Self(RandomState::new().hash_one(0u8))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`, which is more than 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// A pause of half to one and a half times the given one.
    pub(crate) fn about(&mut self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + self.below(1000) as f64 / 1000.0)
    }
}
