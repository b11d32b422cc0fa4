//! Segments that are on the way: which of them arrived, which are lost (RACK, RFC 8985), and what to send again. Times
//! decide, not counts: a segment is lost when one that was sent later arrived, and a little more time has gone by.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Segments that arrived before one is taken for lost without waiting.
const PLENTY: usize = 3;

/// One segment.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    end: u64,
    at: Instant,
    repeated: bool,
    arrived: bool,
    lost: bool,
}

impl Segment {
    fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether this one was sent before.
    fn is_older(&self, than: &(Instant, u64)) -> bool {
        (self.at, self.end) < *than
    }
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Bytes of which the other end says for the first time that they arrived.
    pub bytes: u64,
    /// The round trip of the newest segment among them that was sent only once.
    pub trip: Option<Duration>,
    /// When that was sent.
    at: Option<Instant>,
}

/// All segments from the first that was not acknowledged on.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    segments: VecDeque<Segment>,
    /// Bytes that are taken to be on the way.
    in_flight: u64,
    /// Bytes that are lost and not yet sent again.
    lost: u64,
    arrived_count: usize,
    /// No segment before this place is lost.
    first_lost: u64,
    /// The segment that was sent last of those that arrived: when, and its end; and its round trip.
    newest: Option<(Instant, u64)>,
    newest_trip: Duration,
    /// The end of what arrived furthest ahead.
    furthest: u64,
    /// Whether segments overtake each other on this path, and how much patience that takes.
    reordered: bool,
    patience: u32,
}

impl Sent {
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// A segment went out for the first time.
    pub(crate) fn push(&mut self, start: u64, end: u64, now: Instant) {
        self.in_flight += end - start;
        self.segments.push_back(Segment {
            start,
            end,
            at: now,
            repeated: false,
            arrived: false,
            lost: false,
        });
    }

    /// All before `end` arrived.
    pub(crate) fn acknowledged(&mut self, end: u64, now: Instant, progress: &mut Progress) {
        while let Some(first) = self.segments.front_mut() {
            if first.start >= end {
                break;
            }
            if first.end <= end {
                self.arrived(0, now, progress);
                if let Some(gone) = self.segments.pop_front()
                    && gone.arrived
                {
                    self.arrived_count -= 1;
                }
            } else {
                // A part of it; the rest is as it was.
                let part = end - first.start;
                first.start = end;
                if !first.arrived {
                    progress.bytes += part;
                    if first.lost { self.lost -= part } else { self.in_flight -= part }
                }
            }
        }
        self.furthest = self.furthest.max(end);
    }

    /// The other end has this piece, though something before it is missing.
    pub(crate) fn selected(&mut self, start: u64, end: u64, now: Instant, progress: &mut Progress) {
        let mut at = self.segments.partition_point(|segment| segment.start < start);
        while self.segments.get(at).is_some_and(|segment| segment.end <= end) {
            self.arrived(at, now, progress);
            at += 1;
        }
    }

    fn arrived(&mut self, at: usize, now: Instant, progress: &mut Progress) {
        let Some(segment) = self.segments.get_mut(at) else { return };
        if segment.arrived {
            return;
        }
        segment.arrived = true;
        self.arrived_count += 1;
        progress.bytes += segment.len();
        if segment.lost {
            self.lost -= segment.len();
        } else {
            self.in_flight -= segment.len();
        }
        let was_lost = std::mem::take(&mut segment.lost);
        let trip = now.saturating_duration_since(segment.at);
        if !segment.repeated {
            if progress.at.is_none_or(|newest| segment.at >= newest) {
                (progress.at, progress.trip) = (Some(segment.at), Some(trip));
            }
            if segment.end < self.furthest || was_lost {
                self.reordered = true;
            }
        }
        self.furthest = self.furthest.max(segment.end);
        // The answer to a repeated one may be for the first: then it comes sooner than the path allows.
        if segment.repeated && trip < self.newest_trip / 2 {
            return;
        }
        if self.newest.is_none_or(|newest| !segment.is_older(&newest)) {
            self.newest = Some((segment.at, segment.end));
            self.newest_trip = trip;
        }
    }

    /// Something was sent again in vain: on this path, wait longer before that.
    pub(crate) fn repeated_in_vain(&mut self) {
        self.reordered = true;
        self.patience = (self.patience + 1).min(16);
    }

    /// Finds what is lost: how many bytes newly are, and when to look again.
    pub(crate) fn find_lost(
        &mut self,
        now: Instant,
        least: Option<Duration>,
        smoothed: Option<Duration>,
        recovering: bool,
    ) -> (u64, Option<Instant>) {
        // Nothing arrived out of order, so nothing is missing.
        let Some(newest) = self.newest.filter(|_| self.arrived_count > 0 || recovering) else {
            return (0, None);
        };
        let hurry = !self.reordered && (recovering || self.arrived_count >= PLENTY);
        let patience = if hurry {
            Duration::ZERO
        } else {
            let quarter = least.unwrap_or_default() / 4 * (self.patience + 1);
            quarter.min(smoothed.unwrap_or(quarter))
        };
        let wait = self.newest_trip + patience;
        let (mut bytes, mut again) = (0, None::<Instant>);
        for segment in &mut self.segments {
            if segment.arrived || segment.lost || !segment.is_older(&newest) {
                continue;
            }
            let due = segment.at + wait;
            if due <= now {
                segment.lost = true;
                bytes += segment.len();
                self.first_lost = self.first_lost.min(segment.start);
            } else {
                again = Some(again.map_or(due, |again| again.min(due)));
            }
        }
        self.in_flight -= bytes;
        self.lost += bytes;
        (bytes, again)
    }

    /// Nothing came back in time: all that did not arrive is lost. How many bytes that is.
    pub(crate) fn all_lost(&mut self) -> u64 {
        // The other end forgot what it had, or never had it.
        if self.segments.front().is_some_and(|first| first.arrived) {
            for segment in &mut self.segments {
                if std::mem::take(&mut segment.arrived) {
                    self.in_flight += segment.len();
                }
            }
            self.arrived_count = 0;
        }
        let mut bytes = 0;
        for segment in &mut self.segments {
            if !segment.arrived && !segment.lost {
                segment.lost = true;
                bytes += segment.len();
            }
        }
        self.in_flight -= bytes;
        self.lost += bytes;
        self.first_lost = 0;
        bytes
    }

    /// The first segment is lost, as duplicate acknowledgements say where the other end selects none.
    pub(crate) fn first_lost(&mut self) -> u64 {
        let Some(first) = self.segments.front_mut().filter(|first| !first.arrived && !first.lost) else {
            return 0;
        };
        first.lost = true;
        let bytes = first.len();
        self.first_lost = self.first_lost.min(first.start);
        self.in_flight -= bytes;
        self.lost += bytes;
        bytes
    }

    /// The first lost segment, and at most so much of it.
    pub(crate) fn next_lost(&mut self, most: u64) -> Option<(u64, u64)> {
        let mut at = self.segments.partition_point(|segment| segment.end <= self.first_lost);
        while self.segments.get(at).is_some_and(|segment| !segment.lost) {
            at += 1;
        }
        let Some(segment) = self.segments.get_mut(at) else {
            self.first_lost = u64::MAX;
            return None;
        };
        self.first_lost = segment.start;
        if segment.len() > most {
            // Segments became smaller since.
            let mut rest = segment.clone();
            segment.end = segment.start + most;
            rest.start = segment.end;
            self.segments.insert(at + 1, rest);
        }
        self.segments.get(at).map(|segment| (segment.start, segment.end))
    }

    /// The segment that begins there went out again.
    pub(crate) fn repeated(&mut self, start: u64, now: Instant) {
        let at = self.segments.partition_point(|segment| segment.start < start);
        let Some(segment) = self.segments.get_mut(at) else { return };
        if std::mem::take(&mut segment.lost) {
            self.lost -= segment.len();
            self.in_flight += segment.len();
        }
        (segment.repeated, segment.at) = (true, now);
    }

    /// The last segment, for a probe.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        self.segments.back().filter(|last| !last.arrived).map(|last| (last.start, last.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn sent(count: u64, at: Instant) -> Sent {
        let mut sent = Sent::default();
        for n in 0..count {
            sent.push(n * 100, n * 100 + 100, at);
        }
        sent
    }

    fn select(sent: &mut Sent, start: u64, end: u64, now: Instant) -> Progress {
        let mut progress = Progress::default();
        sent.selected(start, end, now, &mut progress);
        progress
    }

    #[test]
    fn what_three_overtook_is_lost_at_once() {
        let start = Instant::now();
        let (mut sent, now) = (sent(6, start), start + 20 * MS);
        let progress = select(&mut sent, 100, 400, now);
        assert_eq!((progress.bytes, progress.trip), (300, Some(20 * MS)));
        assert_eq!(sent.find_lost(now, Some(20 * MS), Some(20 * MS), false), (100, None));
        assert_eq!((sent.in_flight(), sent.next_lost(1000)), (200, Some((0, 100))));
        sent.repeated(0, now);
        assert_eq!((sent.in_flight(), sent.next_lost(1000)), (300, None));
    }

    #[test]
    fn what_one_overtook_is_waited_for() {
        let start = Instant::now();
        let (mut sent, now) = (sent(3, start), start + 20 * MS);
        select(&mut sent, 100, 200, now);
        let (lost, again) = sent.find_lost(now, Some(20 * MS), Some(20 * MS), false);
        assert_eq!((lost, again), (0, Some(start + 25 * MS)));
        assert_eq!(sent.find_lost(start + 25 * MS, Some(20 * MS), Some(20 * MS), false).0, 100);
    }

    #[test]
    fn a_lost_repetition_is_found_by_time() {
        let start = Instant::now();
        let mut sent = sent(10, start);
        select(&mut sent, 100, 500, start + 20 * MS);
        sent.find_lost(start + 20 * MS, Some(20 * MS), Some(20 * MS), false);
        sent.repeated(0, start + 20 * MS);
        sent.push(1000, 1100, start + 21 * MS);
        // What was sent after it arrives, but it does not.
        select(&mut sent, 1000, 1100, start + 41 * MS);
        let (lost, _) = sent.find_lost(start + 41 * MS, Some(20 * MS), Some(20 * MS), true);
        assert!(lost >= 100);
        assert_eq!(sent.next_lost(1000), Some((0, 100)));
    }

    #[test]
    fn acknowledgements_take_segments_and_parts_of_them() {
        let start = Instant::now();
        let mut sent = sent(4, start);
        let mut progress = Progress::default();
        sent.acknowledged(250, start + MS, &mut progress);
        assert_eq!((progress.bytes, sent.in_flight(), sent.len()), (250, 150, 2));
        sent.acknowledged(400, start + MS, &mut progress);
        assert_eq!((progress.bytes, sent.in_flight(), sent.is_empty()), (400, 0, true));
    }

    #[test]
    fn after_a_timeout_all_is_sent_again_in_smaller_pieces() {
        let start = Instant::now();
        let mut sent = sent(3, start);
        select(&mut sent, 100, 200, start + MS);
        assert_eq!(sent.all_lost(), 200);
        let mut pieces = Vec::new();
        while let Some((from, to)) = sent.next_lost(60) {
            sent.repeated(from, start + 2 * MS);
            pieces.push((from, to));
        }
        assert_eq!(pieces, [(0, 60), (60, 100), (200, 260), (260, 300)]);
        assert_eq!(sent.in_flight(), 200);
        let mut progress = Progress::default();
        sent.acknowledged(300, start + 3 * MS, &mut progress);
        assert_eq!((progress.bytes, progress.trip), (200, None), "a repeated segment measures nothing");
    }

    #[test]
    fn one_that_forgets_what_it_had_gets_it_again() {
        let start = Instant::now();
        let mut sent = sent(3, start);
        select(&mut sent, 0, 300, start + MS);
        assert_eq!(sent.all_lost(), 300);
        assert_eq!(sent.next_lost(1000), Some((0, 100)));
    }
}
