//! When to look at an object again that could not be brought to what it should be.

use std::{collections::HashMap, hash::Hash, sync::Mutex, time::Duration};

use causeway_base::{Backoff, lock::lock};

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_mins(1));

/// Failures in a row per key.
pub(crate) struct Failures<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash> Failures<K> {
    /// Counts a failure and says how long to wait before the next attempt.
    pub(crate) fn failed(&self, key: K) -> Duration {
        let mut counts = lock(&self.0);
        let count = counts.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        BACKOFF.delay(*count)
    }

    /// Forgets the failures of `key`.
    pub(crate) fn succeeded(&self, key: &K) {
        lock(&self.0).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_starts_over_and_keys_are_apart() {
        let failures = Failures::default();
        for _ in 0..20 {
            failures.failed("a");
        }
        let longest =
            |failures: &Failures<_>, key| (0..64).map(|_| failures.failed(key)).max().unwrap_or_default();
        assert!(longest(&failures, "a") > Duration::from_secs(10));
        assert!(failures.failed("b") <= Duration::from_millis(200));
        failures.succeeded(&"a");
        assert!(failures.failed("a") <= Duration::from_millis(200));
    }
}
