//! Loads: each is one thread around one epoll, so that what it costs is the same beside every proxy.

pub mod bulk;
pub mod connections;
pub mod idle;
pub mod integrity;
pub mod pings;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::accounts::{Accounts, Spent, Window};

/// What a load found, by name.
pub type Figures = BTreeMap<&'static str, f64>;

/// How often a load that waits looks at the clock.
pub const TICK: Duration = Duration::from_millis(50);

/// Warms up, then measures.
pub struct Stopwatch {
    start: Instant,
    warm_up: Duration,
    length: Duration,
    window: Option<Window>,
}

/// What time it is for a load.
#[derive(Debug, PartialEq, Eq)]
pub enum Now {
    Going,
    /// The counting begins: forget what was before.
    Begins,
    Over,
}

impl Stopwatch {
    pub fn new(warm_up: Duration, length: Duration) -> Self {
        Self { start: Instant::now(), warm_up, length, window: None }
    }

    pub fn look(&mut self, accounts: &Accounts) -> Now {
        let elapsed = self.start.elapsed();
        if elapsed >= self.warm_up + self.length {
            return Now::Over;
        }
        if self.window.is_none() && elapsed >= self.warm_up {
            self.window = Some(Window::open(accounts));
            return Now::Begins;
        }
        Now::Going
    }

    pub fn stop(self) -> Spent {
        self.window.map(Window::close).unwrap_or_default()
    }
}

/// Adds the quantiles of times in nanoseconds, as microseconds.
pub fn quantiles(times: &mut [u32], figures: &mut Figures) {
    times.sort_unstable();
    for (name, share) in [("p50Us", 0.5), ("p99Us", 0.99), ("p999Us", 0.999)] {
        let rank = (share * times.len() as f64).ceil() as usize;
        if let Some(time) = times.get(rank.saturating_sub(1)) {
            figures.insert(name, f64::from(*time) / 1e3);
        }
    }
}

/// Nanoseconds since a moment, as many as fit.
pub fn nanos(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut times: Vec<u32> = (1..=1000).rev().map(|i| i * 1000).collect();
        let mut figures = Figures::new();
        quantiles(&mut times, &mut figures);
        let found: Vec<_> = figures.into_iter().collect();
        assert_eq!(found, [("p50Us", 500.0), ("p999Us", 999.0), ("p99Us", 990.0)]);
    }
}
