//! What a connection sends next: first what is lost, then what is new, as far as both windows and the pace allow.

use std::time::{Duration, Instant};

use smoltcp::wire::{TcpControl, TcpRepr, TcpSeqNumber};

use super::{Connection, End, Phase, number};

/// Round trips below this are not paced: the timer is coarser than what it would spread.
const PACED: Duration = Duration::from_millis(3);
/// How far apart bursts are, and the least that goes out at once.
const BURST_EVERY: Duration = Duration::from_millis(1);
const BURST: f64 = 16_384.0;

/// A segment to send: its header without ports, and which bytes of the stream go with it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub header: TcpRepr<'static>,
    place: u64,
    pub length: usize,
}

impl Connection {
    /// The next segment, if any may be sent now.
    pub(crate) fn next_segment(&mut self, now: Instant) -> Option<Outgoing> {
        match self.phase {
            Phase::Asked => None,
            Phase::Asking | Phase::Answered => std::mem::take(&mut self.syn_due).then(|| self.syn(now)),
            Phase::Closed => std::mem::take(&mut self.reset_due).then(|| self.reset()),
            Phase::Open | Phase::Lingering => {
                self.repeat(now).or_else(|| self.fresh(now)).or_else(|| self.empty())
            }
        }
    }

    /// Writes the bytes that go with a segment.
    pub(crate) fn fill(&self, outgoing: &Outgoing, payload: &mut [u8]) {
        if outgoing.length > 0 {
            self.outbox.copy((outgoing.place - self.outbox_at) as usize, payload);
        }
    }

    fn syn(&mut self, now: Instant) -> Outgoing {
        self.timers.syn_sent(now);
        let answers = self.phase == Phase::Answered;
        let mut header = self.header(TcpControl::Syn, 0);
        header.seq_number = number(self.first_out, 0) - 1;
        header.ack_number = answers.then(|| number(self.first_in, 0));
        // Without a scale, whatever was agreed on.
        self.promised = self.window.min(0xffff);
        header.window_len = self.promised as u16;
        header.max_seg_size = Some(self.own_segment);
        // Scales count only if both ends name one.
        header.window_scale = (!answers || self.scale > 0 || self.peer_scale > 0).then_some(self.scale);
        header.sack_permitted = !answers || self.selects;
        header.sack_ranges = [None; 3];
        Outgoing { header, place: 0, length: 0 }
    }

    fn reset(&mut self) -> Outgoing {
        let header = self.header(TcpControl::Rst, self.next);
        Outgoing { header: TcpRepr { sack_ranges: [None; 3], ..header }, place: 0, length: 0 }
    }

    /// A header that acknowledges all that came.
    fn header(&mut self, control: TcpControl, place: u64) -> TcpRepr<'static> {
        let edge = self.promised.max(self.read + self.window);
        let window = edge.saturating_sub(self.received) >> self.scale;
        let window = window.min(0xffff);
        self.promised = self.promised.max(self.received + (window << self.scale));
        let mut sack_ranges = [None; 3];
        if self.selects && (self.duplicate.is_some() || !self.ranges.is_empty()) {
            let wire = |at: u64| number(self.first_in, at).0 as u32;
            let report = self.duplicate.into_iter().chain(self.ranges.report().into_iter().flatten());
            for (range, (start, end)) in sack_ranges.iter_mut().zip(report) {
                *range = Some((wire(start), wire(end)));
            }
        }
        TcpRepr {
            src_port: 0,
            dst_port: 0,
            control,
            seq_number: number(self.first_out, place),
            ack_number: Some(number(self.first_in, self.received)),
            window_len: window as u16,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges,
            timestamp: None,
            payload: &[],
        }
    }

    /// The other end learns from the segment that is made now all that it was to be told.
    fn told(&mut self) {
        self.ack_due = false;
        self.unacknowledged = 0;
        self.duplicate = None;
        self.timers.acknowledged();
    }

    /// A segment with what of the stream is from `start` to `end`, where the end itself counts as one.
    fn stretch(&mut self, start: u64, end: u64) -> Outgoing {
        let bytes_end = end.min(self.outbox_end());
        let control = match () {
            () if end > bytes_end => TcpControl::Fin,
            () if bytes_end == self.outbox_end() => TcpControl::Psh,
            () => TcpControl::None,
        };
        let header = self.header(control, start);
        self.told();
        Outgoing { header, place: start, length: bytes_end.saturating_sub(start) as usize }
    }

    /// What fits into a segment beside the options that it will have.
    fn payload_room(&self) -> u64 {
        if self.duplicate.is_none() && self.ranges.is_empty() {
            return u64::from(self.segment);
        }
        let ranges = usize::from(self.duplicate.is_some())
            + self.ranges.report().iter().filter(|range| range.is_some()).count();
        let options = if self.selects && ranges > 0 { 4 + 8 * ranges.min(3) as u64 } else { 0 };
        u64::from(self.segment).saturating_sub(options).max(1)
    }

    /// Something that was sent before.
    fn repeat(&mut self, now: Instant) -> Option<Outgoing> {
        if self.sent.is_empty() {
            return None;
        }
        let most = self.payload_room();
        if std::mem::take(&mut self.tail_due) {
            // New data says as much as old.
            let has_new = self.next < self.outbox_end() && self.edge > self.next;
            if has_new && let Some(outgoing) = self.fresh_whatever(now) {
                return Some(outgoing);
            }
            let (start, end) = self.sent.last()?;
            let end = end.min(start + most);
            self.sent.repeated(start, now);
            self.note_sent(now, false);
            self.timers.tail = None;
            return Some(self.stretch(start, end));
        }
        if !self.sent.has_lost() {
            return None;
        }
        let (start, end) = self.sent.next_lost(most)?;
        let fits = self.sent.in_flight() + (end - start) <= self.congestion.window();
        if !fits && !self.urgent && self.sent.in_flight() > 0 {
            self.held_back_at = Some(self.next);
            return None;
        }
        if !self.urgent && !self.may_send(now, end - start) {
            return None;
        }
        self.urgent = false;
        self.sent.repeated(start, now);
        self.note_sent(now, false);
        Some(self.stretch(start, end))
    }

    /// Something that was not sent before.
    fn fresh(&mut self, now: Instant) -> Option<Outgoing> {
        if self.end == End::Sent || self.end == End::Acknowledged || self.phase != Phase::Open {
            return None;
        }
        let waiting = self.outbox_end() - self.next;
        if waiting == 0 && self.end != End::Wanted {
            return None;
        }
        self.note_rest(now);
        let segment = self.payload_room();
        let window = self.edge.saturating_sub(self.next);
        let length = waiting.min(segment).min(window);
        // The end takes no room of either window worth waiting for.
        if waiting > 0 {
            let flying = self.sent.in_flight();
            if length < waiting.min(segment) && (length == 0 || flying > 0 && length < self.widest / 2) {
                self.wait_for_window(now);
                return None;
            }
            if flying > 0 && flying + length > self.congestion.window() {
                self.held_back_at = Some(self.next);
                return None;
            }
            if !self.may_send(now, length) {
                return None;
            }
        }
        Some(self.send_fresh(length, now))
    }

    /// The same, whatever the window of congestion says.
    fn fresh_whatever(&mut self, now: Instant) -> Option<Outgoing> {
        let window = self.edge.saturating_sub(self.next);
        let length = (self.outbox_end() - self.next).min(self.payload_room()).min(window);
        (length > 0).then(|| self.send_fresh(length, now))
    }

    fn send_fresh(&mut self, length: u64, now: Instant) -> Outgoing {
        let start = self.next;
        let mut end = start + length;
        if self.end == End::Wanted && end == self.outbox_end() {
            end += 1;
            self.end = End::Sent;
            self.ended_first = !self.ended;
        }
        let was_empty = self.sent.is_empty();
        self.sent.push(start, end, now);
        self.next = end;
        self.note_sent(now, was_empty);
        self.stretch(start, end)
    }

    /// A segment without anything of the stream.
    fn empty(&mut self) -> Option<Outgoing> {
        let place = if std::mem::take(&mut self.probe_due) {
            // What the other end has already makes it answer.
            number(self.first_out, self.acknowledged) - 1
        } else if self.ack_due {
            number(self.first_out, self.next)
        } else {
            return None;
        };
        let header = TcpRepr { seq_number: place, ..self.header(TcpControl::None, 0) };
        self.told();
        Some(Outgoing { header, place: 0, length: 0 })
    }

    /// Whether the pace allows so many bytes now; if not, the timer says when.
    fn may_send(&mut self, now: Instant, bytes: u64) -> bool {
        let Some(smoothed) = self.trip.smoothed().filter(|smoothed| *smoothed >= PACED) else { return true };
        let rate = self.congestion.pace(smoothed);
        let most = BURST.max(rate * BURST_EVERY.as_secs_f64() * 4.0);
        let pause = self.pace.at.map_or(BURST_EVERY * 2, |at| now.saturating_duration_since(at));
        self.pace.credit = (self.pace.credit + rate * pause.as_secs_f64()).min(most);
        self.pace.at = Some(now);
        if self.pace.credit <= 0.0 {
            self.held_back_at = Some(self.next);
            self.timers.pace = Some(now + BURST_EVERY);
            return false;
        }
        self.pace.credit -= bytes as f64;
        true
    }
}

/// What answers a segment for which there is no connection (RFC 9293, section 3.10.7.1).
pub(crate) fn reset_for(segment: &TcpRepr<'_>) -> Option<TcpRepr<'static>> {
    if segment.control == TcpControl::Rst {
        return None;
    }
    let (seq_number, ack_number) = match segment.ack_number {
        Some(ack) => (ack, None),
        None => (TcpSeqNumber(0), Some(segment.seq_number + segment.segment_len())),
    };
    Some(TcpRepr {
        src_port: segment.dst_port,
        dst_port: segment.src_port,
        control: TcpControl::Rst,
        seq_number,
        ack_number,
        window_len: 0,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    })
}
