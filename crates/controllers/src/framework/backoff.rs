//! How long to wait: exponential backoff with jitter for retries, and a jittered period for the resync.
//! Pure but for the one source of randomness, which needs to be cheap and different per process, not secret.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// The bounds of an exponential backoff.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// No delay is longer than this, jitter included.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(500), most: Duration::from_mins(5) }
    }
}

impl Backoff {
    /// The delay after `failures` failures in a row (1 is the first), spread over the upper half of its step by `random`.
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.most);
        full / 2 + (full / 2).mul_f64(unit(random))
    }
}

/// `period` moved by up to a tenth either way, so that objects made together do not stay together.
pub fn spread(period: Duration, random: u64) -> Duration {
    period.mul_f64(0.9 + 0.2 * unit(random))
}

/// A random number; std's hasher keys are the seed, which spares a dependency.
pub fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_until_the_bound_and_never_passes_it() {
        let backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_mins(1) };
        for (failures, full) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (500, 60)] {
            let full = Duration::from_secs(full);
            assert_eq!(backoff.delay(failures, 0), full / 2, "{failures} failures, least");
            let most = backoff.delay(failures, u64::MAX);
            assert!(most <= full && most > full.mul_f64(0.99), "{failures} failures, most: {most:?}");
        }
    }

    #[test]
    fn spreads_a_period_by_a_tenth() {
        let hour = Duration::from_hours(1);
        assert_eq!(spread(hour, 0), hour.mul_f64(0.9));
        assert!(spread(hour, u64::MAX) <= hour.mul_f64(1.1));
        assert_ne!(random(), random());
    }
}
