//! Chance that can be repeated.

use std::time::Duration;

/// A small generator (splitmix64), good enough to choose by.
#[derive(Debug, Clone)]
pub struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    /// The same rolls every time.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// Other rolls every time, unless the environment variable names the seed that a run printed.
    ///
    /// # Panics
    /// When the variable holds no number.
    pub fn from_env(variable: &str) -> Self {
        Self::new(match std::env::var(variable) {
            Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {seed:?}")),
            Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        })
    }

    /// What gives the same rolls again.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Dice of their own for another task.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self::new(self.next())
    }

    /// A number below `limit`; 0 when the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A duration below `limit`, to the microsecond.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_rolls() {
        let rolls = |mut dice: Dice| (0..32).map(|_| dice.below(6)).collect::<Vec<_>>();
        assert_eq!(rolls(Dice::new(7)), rolls(Dice::new(7)));
        assert_ne!(rolls(Dice::new(7)), rolls(Dice::new(8)));
        let mut one = Dice::new(7);
        let other = one.split();
        assert_ne!(rolls(one), rolls(other));
        assert!(rolls(Dice::new(1)).iter().all(|roll| *roll < 6));
    }
}
