//! How long a round trip takes: smoothed, its variation, and the least of the last while, which is the path without a queue.

use std::time::{Duration, Instant};

/// Before anything was measured, as RFC 6298 has it.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// Above the smoothed time at least this much is waited, for a peer that delays its acknowledgements.
const SLACK: Duration = Duration::from_millis(200);
/// How long the least is remembered, at least; at most twice as long.
const MEMORY: Duration = Duration::from_secs(10);

/// What was measured.
#[derive(Debug)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// The least of this while and of the one before.
    least: [Duration; 2],
    since: Option<Instant>,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self { smoothed: None, variation: Duration::ZERO, least: [Duration::MAX; 2], since: None }
    }
}

impl RoundTrip {
    pub(crate) fn measured(&mut self, trip: Duration, now: Instant) {
        // RFC 6298, section 2.
        self.smoothed = Some(match self.smoothed {
            None => {
                self.variation = trip / 2;
                trip
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(trip)) / 4;
                (smoothed * 7 + trip) / 8
            }
        });
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MEMORY {
            self.least = [trip, self.least[0]];
            self.since = Some(now);
        } else {
            self.least[0] = self.least[0].min(trip);
        }
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The shortest of the last while; none before anything was measured.
    pub(crate) fn least(&self) -> Option<Duration> {
        let [one, two] = self.least;
        Some(one.min(two)).filter(|least| *least < Duration::MAX)
    }

    /// After what time without an answer something is sent again.
    pub(crate) fn timeout(&self) -> Duration {
        self.smoothed.map_or(FIRST_TIMEOUT, |smoothed| smoothed + SLACK.max(self.variation * 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_path() {
        let (mut trip, start) = (RoundTrip::default(), Instant::now());
        assert_eq!((trip.timeout(), trip.least()), (FIRST_TIMEOUT, None));
        let ms = Duration::from_millis;
        for n in 0..100 {
            trip.measured(ms(20), start + ms(20 * n));
        }
        assert_eq!(trip.timeout(), ms(20) + SLACK);
        trip.measured(ms(820), start + ms(3000));
        assert!(trip.timeout() > ms(800), "{:?}", trip.timeout());
    }

    #[test]
    fn the_least_is_forgotten_after_a_while() {
        let (mut trip, start) = (RoundTrip::default(), Instant::now());
        trip.measured(Duration::from_millis(5), start);
        for second in 1..=30 {
            trip.measured(Duration::from_millis(50), start + Duration::from_secs(second));
        }
        assert_eq!(trip.least(), Some(Duration::from_millis(50)));
    }
}
