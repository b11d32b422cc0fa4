//! How long to wait before the next try: doubling up to a bound, with jitter so that what failed together does not try
//! again together.

use std::time::{Duration, Instant};

use crate::random;

/// The bounds of an exponential backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// The first failure waits `first` at most, each further one up to twice as long, and none longer than `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The longest delay after `failures` failures in a row (1 is the first): without jitter, for those who promise
    /// exact delays.
    pub fn ceiling(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }

    /// The delay after `failures` failures in a row (1 is the first): anything up to the ceiling (full jitter), but at
    /// least half of the first delay, so that no try follows at once.
    pub fn delay(self, failures: u32) -> Duration {
        self.delay_at(failures, random::fraction())
    }

    fn delay_at(self, failures: u32, fraction: f64) -> Duration {
        let ceiling = self.ceiling(failures);
        let floor = (self.first / 2).min(ceiling);
        floor + ceiling.saturating_sub(floor).mul_f64(fraction)
    }

    /// Counts the failures of one thing.
    pub const fn retries(self) -> Retries {
        Retries { backoff: self, failures: 0 }
    }
}

/// The failures in a row of one thing, and how long they make it wait.
#[derive(Clone, Debug)]
pub struct Retries {
    backoff: Backoff,
    failures: u32,
}

impl Retries {
    /// Counts one more failure and says how long to wait.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.delay(self.failures)
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// It worked: the next failure is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Retries of something that says that it works before it does: only what lasted starts the waiting over.
#[derive(Clone, Debug)]
pub struct Steady {
    retries: Retries,
    last: Option<Instant>,
}

impl Steady {
    /// How long it must have lasted to count.
    const CALM: Duration = Duration::from_secs(10);

    /// Without failures so far.
    pub const fn new(backoff: Backoff) -> Self {
        Self { retries: backoff.retries(), last: None }
    }

    /// Counts one more failure and says how long to wait.
    pub fn next_delay(&mut self) -> Duration {
        self.last = Some(Instant::now());
        self.retries.next_delay()
    }

    /// It says that it works.
    pub fn settle(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() > Self::CALM) {
            self.retries.reset();
        }
    }
}

/// `period` moved by up to a tenth either way, so that what began together does not stay together.
pub fn spread(period: Duration) -> Duration {
    spread_at(period, random::fraction())
}

fn spread_at(period: Duration, fraction: f64) -> Duration {
    period.mul_f64(0.9 + 0.2 * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

    #[test]
    fn doubles_until_the_bound_and_never_passes_it() {
        for (failures, ceiling) in
            [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (500, 60), (u32::MAX, 60)]
        {
            let ceiling = Duration::from_secs(ceiling);
            assert_eq!(BACKOFF.ceiling(failures), ceiling, "{failures} failures");
            assert_eq!(
                BACKOFF.delay_at(failures, 0.0),
                Duration::from_millis(500),
                "{failures} failures, least"
            );
            assert_eq!(BACKOFF.delay_at(failures, 1.0), ceiling, "{failures} failures, most");
        }
    }

    #[test]
    fn a_bound_below_the_first_delay_holds() {
        let short = Backoff::new(Duration::from_secs(10), Duration::from_secs(2));
        assert_eq!(short.delay_at(1, 0.0), Duration::from_secs(2));
        assert_eq!(short.delay_at(9, 1.0), Duration::from_secs(2));
    }

    #[test]
    fn jitter_uses_the_whole_range() {
        let delays: Vec<_> = (0..1000).map(|_| BACKOFF.delay(4)).collect();
        assert!(delays.iter().all(|delay| (500..=8000).contains(&delay.as_millis())));
        assert!(
            delays.iter().any(|delay| delay.as_secs() < 2) && delays.iter().any(|delay| delay.as_secs() > 6)
        );
    }

    #[test]
    fn success_starts_over() {
        let mut retries = BACKOFF.retries();
        for _ in 0..8 {
            retries.next_delay();
        }
        assert_eq!(retries.failures(), 8);
        retries.reset();
        assert!(retries.next_delay() <= Duration::from_secs(1));
    }

    #[test]
    fn spreads_a_period_by_a_tenth() {
        let hour = Duration::from_hours(1);
        assert_eq!((spread_at(hour, 0.0), spread_at(hour, 1.0)), (hour.mul_f64(0.9), hour.mul_f64(1.1)));
        assert_ne!(spread(hour), spread(hour));
    }
}
