//! Says something at most once in a while, and how often it was left out: for logs that strangers could fill.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;

/// Lets one through in each period.
#[derive(Debug)]
pub struct Throttle {
    period: Duration,
    state: Mutex<(Option<Instant>, u64)>,
}

impl Throttle {
    /// One in each period.
    pub const fn new(period: Duration) -> Self {
        Self { period, state: Mutex::new((None, 0)) }
    }

    /// Whether to say it now; if so, for how many it stands, this one included.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let (last, count) = &mut *lock(&self.state);
        *count += 1;
        if last.is_some_and(|last| now.saturating_duration_since(last) < self.period) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_each_period_stands_for_all() {
        let (throttle, start) = (Throttle::new(Duration::from_secs(10)), Instant::now());
        let after = |seconds| throttle.pass_at(start + Duration::from_secs(seconds));
        assert_eq!(
            [after(0), after(1), after(9), after(10), after(30)],
            [Some(1), None, None, Some(3), Some(1)]
        );
    }
}
