//! What a segment that came in does to a connection: RFC 9293, section 3.10.7, in its order.

use std::time::Instant;

use smoltcp::wire::{TcpControl, TcpRepr, TcpSeqNumber};

use super::congestion::Arrival;
use super::sent::Progress;
use super::{Connection, End, Failure, Phase, place};

/// Duplicates after which the first segment is lost, where the other end selects none.
const DUPLICATES: u32 = 3;

impl Connection {
    /// Takes a segment; false if it deserves a reset.
    pub(crate) fn take(&mut self, segment: &TcpRepr<'_>, now: Instant) -> bool {
        match self.phase {
            Phase::Closed => true,
            Phase::Asked => {
                if segment.control == TcpControl::Rst && place(self.first_in, 0, segment.seq_number) == 0 {
                    self.fail(Failure::Reset);
                }
                true
            }
            Phase::Asking => self.take_answer(segment, now),
            Phase::Answered | Phase::Open | Phase::Lingering => self.take_any(segment, now),
        }
    }

    fn take_answer(&mut self, segment: &TcpRepr<'_>, now: Instant) -> bool {
        let Some(ack) = segment.ack_number else { return true };
        if place(self.first_out, 0, ack) != 0 {
            return segment.control == TcpControl::Rst;
        }
        match segment.control {
            TcpControl::Rst => self.fail(Failure::Refused),
            TcpControl::Syn => {
                self.learn(segment);
                self.opened(now);
                self.ack_due = true;
            }
            _ => {}
        }
        true
    }

    /// The other end has heard of this one.
    fn opened(&mut self, now: Instant) {
        self.phase = Phase::Open;
        self.syn_due = false;
        if let Some(trip) = self.timers.opened(now, self.settings.keepalive) {
            self.trip.measured(trip, now);
        }
    }

    fn take_any(&mut self, segment: &TcpRepr<'_>, now: Instant) -> bool {
        let start = place(self.first_in, self.received, segment.seq_number);
        let has_end = segment.control == TcpControl::Fin;
        let length = segment.payload.len() as i64 + i64::from(has_end);
        let end = start + length;
        let (next, edge) = (self.received as i64, self.promised.max(self.received) as i64);
        if segment.control == TcpControl::Syn {
            if self.phase == Phase::Answered && start == -1 {
                // The answer was lost.
                self.syn_due = true;
            } else {
                self.challenge(now);
            }
            return true;
        }
        let fits = if length == 0 { start >= next && start <= edge } else { start < edge && end > next };
        if segment.control == TcpControl::Rst {
            if start == next {
                let refused = self.phase == Phase::Answered;
                self.fail(if refused { Failure::Refused } else { Failure::Reset });
            } else if fits {
                self.challenge(now);
            }
            return true;
        }
        if !fits {
            if length > 0 && end <= next && start >= 0 {
                self.duplicate = Some((start as u64, end as u64));
                self.ack_due = true;
            } else if length > 0 {
                self.ack_due = true;
            } else {
                self.challenge(now);
            }
            // What finds the window shut may still acknowledge something.
            if start != next {
                return true;
            }
        }
        let Some(ack) = segment.ack_number else { return true };
        let ack = place(self.first_out, self.acknowledged, ack);
        if ack > self.next as i64 {
            if self.phase == Phase::Answered {
                return false;
            }
            self.challenge(now);
            return true;
        }
        if self.phase == Phase::Answered {
            if ack < 0 {
                return false;
            }
            self.opened(now);
            self.widen(u64::from(segment.window_len) << self.peer_scale, 0, start);
        }
        self.timers.heard(now, self.settings.keepalive);
        if ack >= self.acknowledged as i64 {
            self.take_acknowledgement(ack as u64, segment, start, now);
        } else if ((self.acknowledged as i64) - ack) as u64 > self.widest.max(1 << 16) {
            self.challenge(now);
            return true;
        }
        if fits && self.phase == Phase::Open {
            self.take_payload(segment.payload, start, now);
            if has_end {
                self.end_at.get_or_insert(end as u64 - 1);
            }
            self.take_end();
        }
        if self.phase == Phase::Lingering && length > 0 {
            self.ack_due = true;
        }
        self.settle(now);
        true
    }

    /// The window that the other end offers.
    pub(super) fn widen(&mut self, window: u64, ack: u64, start: i64) {
        let edge = ack + window;
        if ack > self.acknowledged || start > self.edge_by || (start == self.edge_by && edge > self.edge) {
            (self.edge, self.edge_by) = (edge, start);
            self.widest = self.widest.max(window);
            if edge > self.next {
                self.timers.window_open();
            }
        }
    }

    fn take_acknowledgement(&mut self, ack: u64, segment: &TcpRepr<'_>, start: i64, now: Instant) {
        let before = (self.acknowledged, self.edge);
        self.widen(u64::from(segment.window_len) << self.peer_scale, ack, start);
        let mut progress = Progress::default();
        let moved = ack > self.acknowledged;
        if moved {
            self.sent.acknowledged(ack, now, &mut progress);
            let bytes = ack.min(self.outbox_end()).saturating_sub(self.outbox_at);
            self.outbox.consume(bytes as usize);
            self.outbox_at += bytes;
            self.acknowledged = ack;
            self.duplicates = 0;
            if self.end == End::Sent && ack == self.next && self.outbox.is_empty() {
                self.end = End::Acknowledged;
                if self.abandoned {
                    self.timers.abandoned(now);
                }
            }
        }
        self.take_selection(segment, now, &mut progress);
        if let Some(trip) = progress.trip {
            self.trip.measured(trip, now);
        }
        let lost = if self.selects {
            self.look_for_lost(now)
        } else {
            let again = (ack, self.edge) == before && segment.payload.is_empty() && !self.sent.is_empty();
            self.duplicates += u32::from(again);
            let partly = moved && self.recovery.is_some_and(|end| ack < end);
            if partly || (again && self.duplicates == DUPLICATES) { self.sent.first_lost() } else { 0 }
        };
        if self.recovery.is_some_and(|end| ack >= end) {
            self.recovery = None;
            self.congestion.recovered();
        }
        self.count_lost(lost);
        let arrival = Arrival {
            bytes: progress.bytes,
            trip: progress.trip,
            smoothed: self.trip.smoothed(),
            acknowledged: self.acknowledged,
            sent: self.next,
            was_full: self.held_back_at.is_some_and(|at| before.0 <= at),
        };
        self.congestion.arrived(arrival, now);
        if progress.bytes > 0 {
            self.timers.progressed(now);
            self.arm(now, true);
        }
    }

    fn take_selection(&mut self, segment: &TcpRepr<'_>, now: Instant, progress: &mut Progress) {
        if !self.selects {
            return;
        }
        for (index, (left, right)) in segment.sack_ranges.iter().flatten().enumerate() {
            let at = |number: u32| place(self.first_out, self.acknowledged, TcpSeqNumber(number as i32));
            let (left, right) = (at(*left), at(*right));
            let acknowledged = self.acknowledged as i64;
            if left >= right || right > self.next as i64 {
                continue;
            }
            if right <= acknowledged {
                // It had that already: something was sent again in vain.
                if index == 0 && left >= 0 {
                    self.sent.repeated_in_vain();
                }
            } else if left >= acknowledged {
                self.sent.selected(left as u64, right as u64, now, progress);
            }
        }
    }

    /// Looks for segments that are lost by now; how many bytes newly are.
    pub(super) fn look_for_lost(&mut self, now: Instant) -> u64 {
        let recovering = self.recovery.is_some();
        let (lost, again) = self.sent.find_lost(now, self.trip.least(), self.trip.smoothed(), recovering);
        self.timers.look = again;
        lost
    }

    pub(super) fn count_lost(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.recovery.is_none() {
            self.recovery = Some(self.next);
            self.urgent = true;
        }
        self.timers.tail = None;
        self.congestion.lost(bytes, self.trip.least());
    }

    fn take_payload(&mut self, payload: &[u8], start: i64, now: Instant) {
        let (next, edge) = (self.received as i64, self.promised as i64);
        let skip = (next - start).max(0) as usize;
        let keep = payload.len().min((edge - start).max(0) as usize);
        if skip >= keep {
            return;
        }
        if self.abandoned {
            // Who closed does not take more; the other end must learn that.
            self.abort(Failure::Aborted);
            return;
        }
        let payload = &payload[skip..keep];
        let from = (start + skip as i64) as u64;
        let to = from + payload.len() as u64;
        if self.end_at.is_some_and(|end| to > end) {
            return;
        }
        let at = (from - self.read) as usize;
        if self.ranges.contains(from, to) {
            self.duplicate = Some((from, to));
            self.ack_due = true;
            return;
        }
        if !self.inbox.reserve(at + payload.len(), &mut self.memory) {
            // Nothing was promised beyond memory but a place in the window: it comes again.
            self.ack_due = true;
            return;
        }
        if from > self.received {
            self.ack_due = true;
            if self.ranges.insert(from, to) {
                self.inbox.put(at, payload);
            }
            return;
        }
        self.inbox.put(at, payload);
        let gaps = !self.ranges.is_empty();
        let joined = if gaps { self.ranges.join(to) } else { to };
        self.inbox.extend((joined - self.received) as usize);
        self.unacknowledged += joined - self.received;
        self.received = joined;
        if gaps || self.unacknowledged >= 2 * u64::from(self.own_segment.min(self.segment as u16)) {
            self.ack_due = true;
        } else {
            self.timers.delay_acknowledgement(now);
        }
    }

    /// The other end's stream ends where all was received.
    fn take_end(&mut self) {
        if !self.ended && self.end_at == Some(self.received) {
            self.ended = true;
            self.received += 1;
            self.ack_due = true;
        }
    }

    /// Both directions may have ended.
    fn settle(&mut self, now: Instant) {
        if self.phase == Phase::Open && self.ended && self.end == End::Acknowledged {
            if self.ended_first {
                self.phase = Phase::Lingering;
                self.timers.linger(now);
            } else {
                self.close();
            }
        }
    }

    /// Answers what may be forged or came late, but not every time.
    fn challenge(&mut self, now: Instant) {
        if self.timers.may_challenge(now) {
            self.ack_due = true;
        }
    }
}
