//! How much may be on the way: CUBIC (RFC 9438) that begins with ten segments, leaves its first doubling when round trips
//! grow longer (HyStart++, RFC 9406), and forgives losses that no queue explains.
//!
//! Radio links and relays lose a packet in a thousand whatever is sent; who halves for each crawls. So a loss counts as
//! congestion only if round trips have grown, which a full queue makes them, or if more than two in a hundred are lost:
//! then the path is full without a queue to show for it.

use std::time::{Duration, Instant};

/// RFC 6928.
const FIRST_SEGMENTS: f64 = 10.0;
const LEAST_SEGMENTS: f64 = 2.0;
/// RFC 9438: how fast it grows, what is left after a loss.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// How much is forgiven for each segment that arrives.
const FORGIVEN: f64 = 0.02;
/// The most that is forgiven at once, in segments; more if that is so small a part of the window.
const FORGIVEN_AT_ONCE: f64 = 8.0;
/// What longer round trips may be of other causes than a queue.
const JITTER: Duration = Duration::from_millis(5);
/// HyStart++: how much longer a round trip must be, from how many measurements, and how long the doubling is only slowed.
const LONGER: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
const MEASUREMENTS: u32 = 8;
const SLOWED_ROUNDS: u32 = 5;

/// The window of one flow, in bytes.
#[derive(Debug)]
pub(crate) struct Congestion {
    segment: f64,
    window: f64,
    threshold: f64,
    cubic: Option<Cubic>,
    /// The window at the last reduction.
    highest: f64,
    /// How many lost segments are still forgiven.
    credit: f64,
    /// Whether the losses of this episode were answered, and whether the window waits for its end to grow.
    answered: bool,
    waits: bool,
    round: Round,
}

/// One time of steady growth.
#[derive(Debug)]
struct Cubic {
    began: Instant,
    /// In seconds, until the window is as it was.
    until_highest: f64,
    origin: f64,
    /// What plain TCP would have.
    plain: f64,
}

/// One round trip's worth of data.
#[derive(Debug)]
struct Round {
    /// It ends when this is acknowledged.
    end: u64,
    least: Duration,
    before: Duration,
    measured: u32,
    /// The doubling is slowed since so many rounds, and what a round trip was when that began.
    slowed: Option<(u32, Duration)>,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Bytes that arrived at the other end since the last.
    pub bytes: u64,
    pub trip: Option<Duration>,
    pub smoothed: Option<Duration>,
    /// All before this is acknowledged, and this was sent last.
    pub acknowledged: u64,
    pub sent: u64,
    /// Whether the window is what held the flow back.
    pub was_full: bool,
}

impl Congestion {
    pub(crate) fn new(segment: u32) -> Self {
        let segment = f64::from(segment);
        Self {
            segment,
            window: FIRST_SEGMENTS * segment,
            threshold: f64::MAX,
            cubic: None,
            highest: 0.0,
            credit: FORGIVEN_AT_ONCE / 2.0,
            answered: false,
            waits: false,
            round: Round { end: 0, least: Duration::MAX, before: Duration::MAX, measured: 0, slowed: None },
        }
    }

    pub(crate) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Bytes a second at which to send, so that a window does not go out as one burst.
    pub(crate) fn pace(&self, smoothed: Duration) -> f64 {
        let factor = if self.is_doubling() { 2.0 } else { 1.25 };
        factor * self.window / smoothed.as_secs_f64().max(1e-6)
    }

    /// Segments became smaller, or the other end said how large they may be.
    pub(crate) fn set_segment(&mut self, segment: u32) {
        let segment = f64::from(segment);
        self.window = (self.window / self.segment * segment).max(LEAST_SEGMENTS * segment);
        self.segment = segment;
    }

    fn is_doubling(&self) -> bool {
        self.window < self.threshold
    }

    pub(crate) fn arrived(&mut self, arrival: Arrival, now: Instant) {
        let segments = arrival.bytes as f64 / self.segment;
        let most = FORGIVEN_AT_ONCE.max(FORGIVEN * self.window / self.segment);
        self.credit = (self.credit + FORGIVEN * segments).min(most);
        self.count_round(&arrival);
        if !arrival.was_full || arrival.bytes == 0 || self.waits {
            return;
        }
        if self.is_doubling() {
            let slowed = if self.round.slowed.is_some() { 4.0 } else { 1.0 };
            self.window += arrival.bytes as f64 / slowed;
        } else {
            self.grow(segments, arrival.smoothed.unwrap_or_default(), now);
        }
    }

    fn count_round(&mut self, arrival: &Arrival) {
        let doubling = self.is_doubling();
        let round = &mut self.round;
        if arrival.acknowledged >= round.end {
            round.end = arrival.sent;
            round.before = round.least;
            (round.least, round.measured) = (Duration::MAX, 0);
            if let Some((rounds, _)) = &mut round.slowed {
                *rounds += 1;
                if *rounds > SLOWED_ROUNDS {
                    round.slowed = None;
                    self.threshold = self.window;
                    return;
                }
            }
        }
        let Some(trip) = arrival.trip else { return };
        round.least = round.least.min(trip);
        round.measured += 1;
        if !doubling || round.measured < MEASUREMENTS || round.before == Duration::MAX {
            return;
        }
        match round.slowed {
            None => {
                let longer = (round.before / 8).clamp(LONGER.0, LONGER.1);
                if round.least >= round.before + longer {
                    round.slowed = Some((0, round.least));
                }
            }
            // It was chance: round trips are as short as before.
            Some((_, then)) if round.least < then => round.slowed = None,
            Some(_) => {}
        }
    }

    /// RFC 9438, section 4.
    fn grow(&mut self, segments: f64, smoothed: Duration, now: Instant) {
        let current = self.window / self.segment;
        let highest = self.highest / self.segment;
        let cubic = self.cubic.get_or_insert_with(|| {
            let origin = highest.max(current);
            Cubic { began: now, until_highest: ((origin - current) / C).cbrt(), origin, plain: current }
        });
        let time = now.saturating_duration_since(cubic.began).as_secs_f64() + smoothed.as_secs_f64();
        let target = (C * (time - cubic.until_highest).powi(3) + cubic.origin).clamp(current, current * 1.5);
        let share = if cubic.plain < cubic.origin { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        cubic.plain += share * segments / current;
        let grown = current + (target - current) * segments / current;
        self.window = grown.max(cubic.plain).min(current + segments) * self.segment;
    }

    /// So many bytes were lost.
    pub(crate) fn lost(&mut self, bytes: u64, least: Option<Duration>) {
        self.credit -= bytes as f64 / self.segment;
        let round = if self.round.least < Duration::MAX { self.round.least } else { self.round.before };
        let queued =
            least.is_some_and(|least| round < Duration::MAX && round > least + (least / 4).max(JITTER));
        if (queued || self.credit < 0.0) && !self.answered {
            (self.answered, self.waits) = (true, true);
            self.reduce(BETA);
        }
        self.credit = self.credit.max(0.0);
    }

    /// All that was lost has arrived.
    pub(crate) fn recovered(&mut self) {
        (self.answered, self.waits) = (false, false);
    }

    /// Nothing came back for so long that all is taken for lost.
    pub(crate) fn timed_out(&mut self) {
        self.reduce(BETA);
        self.window = LEAST_SEGMENTS * self.segment;
        // From here it must grow again to send all that was lost.
        (self.answered, self.waits) = (true, false);
        self.round.slowed = None;
    }

    /// Nothing was sent for so many timeouts: what was known of the path fades.
    pub(crate) fn rested(&mut self, timeouts: u32) {
        let first = FIRST_SEGMENTS * self.segment;
        self.threshold = self.threshold.max(self.window * 0.75);
        let halved = self.window / f64::from(1_u32 << timeouts.min(16));
        self.window = halved.max(first.min(self.window));
        self.cubic = None;
    }

    fn reduce(&mut self, factor: f64) {
        // Who has less than before leaves room to who is new.
        self.highest =
            if self.window < self.highest { self.window * f64::midpoint(1.0, BETA) } else { self.window };
        self.window = (self.window * factor).max(LEAST_SEGMENTS * self.segment);
        self.threshold = self.window;
        self.cubic = None;
        self.round.slowed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1000;
    const TRIP: Duration = Duration::from_millis(20);

    /// A path without an end: every round all of the window arrives.
    struct Path {
        congestion: Congestion,
        now: Instant,
        sent: u64,
    }

    impl Path {
        fn new() -> Self {
            Self { congestion: Congestion::new(SEGMENT), now: Instant::now(), sent: 0 }
        }

        fn round(&mut self, trip: Duration) -> f64 {
            self.now += trip;
            let count = self.congestion.window() / u64::from(SEGMENT);
            let before = self.sent;
            self.sent += count * u64::from(SEGMENT);
            for n in 1..=count {
                let arrival = Arrival {
                    bytes: u64::from(SEGMENT),
                    trip: Some(trip),
                    smoothed: Some(trip),
                    acknowledged: before + n * u64::from(SEGMENT),
                    sent: self.sent + n,
                    was_full: true,
                };
                self.congestion.arrived(arrival, self.now);
            }
            self.congestion.window / f64::from(SEGMENT)
        }
    }

    #[test]
    fn it_doubles_until_round_trips_grow_longer() {
        let mut path = Path::new();
        assert!(path.round(TRIP) > 19.0);
        assert!(path.round(TRIP) > 38.0);
        let before = path.round(TRIP);
        for _ in 0..2 {
            path.round(TRIP + TRIP / 2);
        }
        let slowed = path.round(TRIP + TRIP / 2);
        assert!(slowed < before * 6.0, "{before} to {slowed}");
        for _ in 0..8 {
            path.round(TRIP + TRIP / 2);
        }
        assert!(!path.congestion.is_doubling());
    }

    #[test]
    fn a_few_losses_without_a_queue_are_forgiven() {
        let mut path = Path::new();
        while path.round(TRIP) < 500.0 {}
        for _ in 0..50 {
            let before = path.congestion.window();
            path.congestion.lost(u64::from(SEGMENT), Some(TRIP));
            assert_eq!(path.congestion.window(), before);
            path.congestion.recovered();
            path.round(TRIP);
            path.congestion.window = 500.0 * f64::from(SEGMENT);
        }
    }

    #[test]
    fn many_losses_or_a_queue_are_answered_once() {
        for (trip, losses) in [(TRIP, 40), (TRIP * 2, 1)] {
            let mut path = Path::new();
            while path.round(trip) < 100.0 {}
            let before = path.congestion.window;
            for _ in 0..losses {
                path.congestion.lost(u64::from(SEGMENT), Some(TRIP));
            }
            assert!((path.congestion.window / before - BETA).abs() < 0.01, "{losses} at {trip:?}");
        }
    }

    #[test]
    fn after_a_reduction_it_comes_back_and_goes_beyond() {
        let mut path = Path::new();
        while path.round(TRIP) < 200.0 {}
        path.congestion.lost(50 * u64::from(SEGMENT), Some(TRIP));
        path.congestion.recovered();
        let reduced = path.congestion.window();
        for _ in 0..500 {
            path.round(TRIP);
        }
        assert!(path.congestion.window() > reduced * 2);
    }

    #[test]
    fn the_window_never_goes_below_two_segments() {
        let mut congestion = Congestion::new(SEGMENT);
        for _ in 0..100 {
            congestion.timed_out();
            congestion.lost(1 << 30, None);
            congestion.recovered();
            congestion.rested(50);
        }
        assert!(congestion.window() >= 2 * u64::from(SEGMENT));
    }
}
