//! What was asked of the engine and what went wrong, by kind of client.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Failures that are told in full; the rest is only counted.
const TOLD: u64 = 40;

pub(crate) struct Tally {
    began: Instant,
    counts: Mutex<BTreeMap<&'static str, (u64, u64)>>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), counts: Mutex::default() }
    }

    /// Counts one try, and tells of a failure.
    pub(crate) fn count<T>(&self, kind: &'static str, result: &anyhow::Result<T>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (tries, failed) = counts.entry(kind).or_default();
        *tries += 1;
        if let Err(error) = result {
            *failed += 1;
            let failures: u64 = counts.values().map(|(_, failed)| failed).sum();
            if failures <= TOLD {
                println!("{:>7.1} s  FAILED {kind}: {error:#}", self.began.elapsed().as_secs_f64());
            }
        }
    }

    pub(crate) fn total(&self) -> (u64, u64) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    pub(crate) fn table(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = format!("{:40} {:>9} {:>7}\n", "what", "done", "failed");
        for (kind, (tries, failed)) in counts.iter() {
            let _ = writeln!(text, "{kind:40} {tries:>9} {failed:>7}");
        }
        text
    }
}
