//! Delays: exponential with an upper bound, and jitter so that retries of many objects spread out.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash},
    sync::{Mutex, PoisonError},
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_mins(1);

/// Failures in a row per key.
pub struct Failures<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash> Failures<K> {
    /// Counts a failure and says how long to wait before the next attempt.
    pub fn failed(&self, key: K) -> Duration {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_insert(0);
        let delay = exponential(FIRST, LONGEST, *count);
        *count = count.saturating_add(1);
        jitter(delay)
    }

    /// Forgets the failures of `key`.
    pub fn succeeded(&self, key: &K) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// `first` doubled `times` times, at most `longest`.
pub fn exponential(first: Duration, longest: Duration, times: u32) -> Duration {
    let factor = 1u32.checked_shl(times).unwrap_or(u32::MAX);
    first.checked_mul(factor).unwrap_or(longest).min(longest)
}

/// `delay` plus up to a fifth of it.
pub fn jitter(delay: Duration) -> Duration {
    // A fresh hasher is keyed at random, which is all the randomness that jitter needs.
    let random = RandomState::new().hash_one(0u8) % 1000;
    delay + delay.mul_f64(random as f64 / 5000.0)
}

/// An error with its causes, for people.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_delay() {
        let at = |times| exponential(Duration::from_secs(10), Duration::from_mins(5), times).as_secs();
        assert_eq!([at(0), at(1), at(2), at(4), at(5), at(40)], [10, 20, 40, 160, 300, 300]);
    }

    #[test]
    fn success_starts_over() {
        let failures = Failures::default();
        failures.failed("a");
        failures.failed("a");
        assert!(failures.failed("a") >= FIRST * 4);
        failures.succeeded(&"a");
        assert!(failures.failed("a") < FIRST * 2);
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        for _ in 0..100 {
            let delay = jitter(Duration::from_secs(10));
            assert!((10.0..=12.0).contains(&delay.as_secs_f64()), "{delay:?}");
        }
    }
}
