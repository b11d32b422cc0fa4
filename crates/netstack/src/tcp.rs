//! One TCP connection without IO: segments and times go in, segments come out; whoever owns it reads and writes bytes.
//!
//! Formats are smoltcp's, the machine is not: RFC 9293 with selective acknowledgements (RFC 2018, 2883), loss found by time
//! and probes at the tail (RACK-TLP, RFC 8985), CUBIC that forgives what is not congestion (`congestion`), windows that
//! grow as the path needs it, and the answers to forged segments of RFC 5961. Places in a stream are counted in 64 bits
//! from its first byte, so nothing here wraps; sequence numbers exist only where a segment is read or written.

mod congestion;
mod inbound;
mod memory;
mod outbound;
mod ranges;
mod ring;
mod sent;
#[cfg(test)]
mod tests;
mod timers;
mod trip;

use std::io;
use std::time::{Duration, Instant};

use smoltcp::wire::{TcpRepr, TcpSeqNumber};

use congestion::Congestion;
pub(crate) use memory::{Memories, Memory};
pub(crate) use outbound::{Outgoing, reset_for};
use ranges::{Piece, Ranges};
use ring::Ring;
use sent::Sent;
use timers::{PROBE, Timers};
use trip::RoundTrip;

/// What a window begins with; the largest that needs no scale.
const FIRST_WINDOW: u64 = 64 << 10;
/// What is kept of the owner's bytes at least.
const FIRST_BUFFER: u64 = 128 << 10;
/// A round trip is taken for at least this: below it the machine, not the path, is what takes time.
const SHORTEST_TRIP: Duration = Duration::from_millis(1);
/// Who says nothing of its largest segment takes this (RFC 9293), and nobody gets to ask for less than the other.
const DEFAULT_SEGMENT: u32 = 536;
const LEAST_SEGMENT: u32 = 128;

/// What is the same for all connections of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The largest window either way.
    pub largest_window: u64,
    pub memories: Memories,
    /// Silence after which the other end is asked whether it is there.
    pub keepalive: Duration,
    /// How long something may stay unanswered.
    pub give_up: Duration,
}

/// Where in its life a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A SYN came; whether it is answered is not decided.
    Asked,
    /// It was answered.
    Answered,
    /// A SYN was sent.
    Asking,
    /// Both know of each other; each direction ends by itself.
    Open,
    /// Both have ended; what is still on the way is answered.
    Lingering,
    Closed,
}

/// Why a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Refused,
    Reset,
    TimedOut,
    Unreachable,
    /// From this side.
    Aborted,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused => io::ErrorKind::ConnectionRefused.into(),
            Failure::Reset => io::ErrorKind::ConnectionReset.into(),
            Failure::TimedOut => io::ErrorKind::TimedOut.into(),
            Failure::Unreachable => io::ErrorKind::HostUnreachable.into(),
            Failure::Aborted => io::ErrorKind::ConnectionAborted.into(),
        }
    }
}

/// The end of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    /// The owner has nothing more to say.
    Wanted,
    Sent,
    Acknowledged,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    settings: Settings,
    phase: Phase,
    failure: Option<Failure>,
    /// The other end is still to be told of the failure.
    reset_due: bool,
    syn_due: bool,
    /// Nobody reads any more.
    abandoned: bool,
    memory: Memory,
    timers: Timers,
    trip: RoundTrip,

    // What goes out.
    first_out: u32,
    outbox: Ring,
    /// Where the first byte of the outbox is in the stream.
    outbox_at: u64,
    acknowledged: u64,
    next: u64,
    sent: Sent,
    congestion: Congestion,
    end: End,
    /// Where the other end's window ends, by a segment that began there, and the largest it ever was.
    edge: u64,
    edge_by: i64,
    widest: u64,
    peer_scale: u8,
    /// The largest segment that may be sent.
    segment: u32,
    selects: bool,
    /// Losses are being made up for until this is acknowledged.
    recovery: Option<u64>,
    duplicates: u32,
    /// One segment goes out whatever the window of congestion says.
    urgent: bool,
    tail_due: bool,
    probe_due: bool,
    /// Between probes of a silent other end.
    probe_every: Duration,
    /// The window of congestion held the flow back here.
    held_back_at: Option<u64>,
    pace: Pace,

    // What comes in.
    first_in: u32,
    inbox: Ring,
    /// Where the first byte of the inbox is in the stream.
    read: u64,
    received: u64,
    ranges: Ranges,
    /// Where the other end's stream ends, and whether all before was received.
    end_at: Option<u64>,
    ended: bool,
    /// Whether this side ended before the other did.
    ended_first: bool,
    window: u64,
    /// The other end may send up to here.
    promised: u64,
    scale: u8,
    own_segment: u16,
    ack_due: bool,
    unacknowledged: u64,
    duplicate: Option<Piece>,
    turn: Turn,
}

/// What was sent lately, so that windows do not go out as bursts.
#[derive(Debug, Default)]
struct Pace {
    credit: f64,
    at: Option<Instant>,
}

/// What was read lately: a window that is used up about once a round trip is what holds the other end back.
#[derive(Debug, Default)]
struct Turn {
    taken: u64,
    began: Option<Instant>,
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Bytes(usize),
    Ended,
    Nothing,
    Failed(Failure),
}

impl Connection {
    fn new(settings: &Settings, memory: Memory, phase: Phase, own_segment: u16, now: Instant) -> Self {
        let segment = u32::from(own_segment);
        let scale = (0..14).find(|scale| 0xffff_u64 << scale >= settings.largest_window).unwrap_or(14);
        Self {
            settings: settings.clone(),
            phase,
            failure: None,
            reset_due: false,
            syn_due: phase == Phase::Asking,
            abandoned: false,
            memory,
            timers: Timers::new(now),
            trip: RoundTrip::default(),
            // Nobody can guess it, so nobody can forge a segment without seeing one.
            first_out: causeway_base::random::number() as u32,
            outbox: Ring::default(),
            outbox_at: 0,
            acknowledged: 0,
            next: 0,
            sent: Sent::default(),
            congestion: Congestion::new(segment),
            end: End::NotYet,
            edge: 0,
            edge_by: i64::MIN,
            widest: 0,
            peer_scale: 0,
            segment,
            selects: false,
            recovery: None,
            duplicates: 0,
            urgent: false,
            tail_due: false,
            probe_due: false,
            probe_every: PROBE,
            held_back_at: None,
            pace: Pace::default(),
            first_in: 0,
            inbox: Ring::default(),
            read: 0,
            received: 0,
            ranges: Ranges::default(),
            end_at: None,
            ended: false,
            ended_first: false,
            window: FIRST_WINDOW.min(settings.largest_window),
            promised: 0,
            scale,
            own_segment,
            ack_due: false,
            unacknowledged: 0,
            duplicate: None,
            turn: Turn::default(),
        }
    }

    /// A connection that somebody asks for with a SYN; nothing is answered before [`Connection::accept`].
    pub(crate) fn asked(
        settings: &Settings,
        memory: Memory,
        own_segment: u16,
        syn: &TcpRepr<'_>,
        now: Instant,
    ) -> Self {
        let mut connection = Self::new(settings, memory, Phase::Asked, own_segment, now);
        connection.learn(syn);
        connection
    }

    /// Answers who asked.
    pub(crate) fn accept(&mut self) {
        if self.phase == Phase::Asked {
            (self.phase, self.syn_due) = (Phase::Answered, true);
        }
    }

    /// A connection that this side asks for.
    pub(crate) fn asking(settings: &Settings, memory: Memory, own_segment: u16, now: Instant) -> Self {
        Self::new(settings, memory, Phase::Asking, own_segment, now)
    }

    /// What a SYN says of the other end.
    fn learn(&mut self, syn: &TcpRepr<'_>) {
        self.first_in = (syn.seq_number.0 as u32).wrapping_add(1);
        self.selects = syn.sack_permitted;
        match syn.window_scale {
            Some(scale) => self.peer_scale = scale.min(14),
            None => self.scale = 0,
        }
        let segment = syn.max_seg_size.map_or(DEFAULT_SEGMENT, u32::from);
        self.segment = segment.clamp(LEAST_SEGMENT, u32::from(self.own_segment).max(LEAST_SEGMENT));
        self.congestion = Congestion::new(self.segment);
        self.widen(u64::from(syn.window_len), 0, -1);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Whether nothing is left to do for it.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Closed && !self.reset_due
    }

    /// How much the owner may write now.
    pub(crate) fn room(&self) -> usize {
        let kept = (2 * self.congestion.window())
            .clamp(FIRST_BUFFER, self.settings.largest_window.max(FIRST_BUFFER));
        usize::try_from(kept).unwrap_or(usize::MAX).saturating_sub(self.outbox.len())
    }

    /// Whether a writer that waits should come back: not for a few bytes.
    pub(crate) fn has_plenty_of_room(&self) -> bool {
        self.failure.is_some() || self.room() > self.outbox.len() / 4
    }

    /// Takes as much as there is room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let room = bytes.len().min(self.room());
        Ok(self.outbox.push(&bytes[..room], &mut self.memory))
    }

    /// Nothing more will be written.
    pub(crate) fn finish(&mut self) {
        if self.end == End::NotYet {
            self.end = End::Wanted;
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.end != End::NotYet
    }

    /// Whether a read would give anything but nothing.
    pub(crate) fn is_readable(&self) -> bool {
        !self.inbox.is_empty() || self.ended || self.failure.is_some()
    }

    /// The oldest bytes in one piece; what of them is used is [`Connection::consume`]d.
    pub(crate) fn peek(&self) -> (&[u8], Read) {
        let front = self.inbox.front();
        let read = match self.failure {
            _ if !front.is_empty() => Read::Bytes(front.len()),
            _ if self.ended => Read::Ended,
            Some(failure) => Read::Failed(failure),
            None => Read::Nothing,
        };
        (front, read)
    }

    /// The owner has so many bytes; says whether the other end should be told that there is room again.
    pub(crate) fn consume(&mut self, count: usize, now: Instant) -> bool {
        self.inbox.consume(count);
        self.read += count as u64;
        self.turn.taken += count as u64;
        if self.turn.taken >= self.window / 2 {
            let trip = self.trip.least().unwrap_or_default().max(SHORTEST_TRIP);
            let quick = self.turn.began.is_some_and(|began| now.saturating_duration_since(began) < trip * 2);
            let memories = &self.settings.memories;
            if quick && memories.used() < memories.limit() / 2 {
                self.window = (self.window * 2).min(self.settings.largest_window);
            }
            self.turn = Turn { taken: 0, began: Some(now) };
        }
        let opened = (self.read + self.window).saturating_sub(self.promised);
        let left = self.promised.saturating_sub(self.received);
        let segment = u64::from(self.own_segment);
        let worth = opened >= (self.window / 4).max(2 * segment.min(self.window / 8))
            || (left < segment && opened >= segment.min(self.window / 2));
        self.ack_due |= worth && !self.ended && self.phase == Phase::Open;
        self.ack_due
    }

    /// Nobody will read or write any more: what was written is still sent, unless something that came was never read.
    pub(crate) fn abandon(&mut self, now: Instant) {
        self.abandoned = true;
        let is_undecided = matches!(self.phase, Phase::Asked | Phase::Asking);
        if is_undecided || !self.inbox.is_empty() || !self.ranges.is_empty() {
            self.abort(Failure::Aborted);
        } else {
            self.finish();
            if self.end == End::Acknowledged {
                self.timers.abandoned(now);
            }
        }
    }

    /// Breaks it off; the other end is told.
    pub(crate) fn abort(&mut self, failure: Failure) {
        if self.phase != Phase::Closed {
            // A SYN that was never sent has no other end to tell.
            self.reset_due = self.phase != Phase::Asking && self.phase != Phase::Lingering;
            self.fail(failure);
        }
    }

    /// It is broken; the other end knows, or can't be told.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.phase != Phase::Closed {
            self.failure.get_or_insert(failure);
            self.close();
        }
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.timers.stop();
        self.outbox.release(&mut self.memory);
        self.sent = Sent::default();
        self.ranges = Ranges::default();
    }

    /// Gives back memory that holds nothing.
    pub(crate) fn relax(&mut self) {
        if self.outbox.is_empty() && self.outbox.has_memory() {
            self.outbox.release(&mut self.memory);
        }
        if self.inbox.is_empty() && self.ranges.is_empty() && self.inbox.has_memory() {
            self.inbox.release(&mut self.memory);
        }
    }

    /// Packets of this path must be smaller: `segment` is what is left for the stream. Says whether that is news.
    pub(crate) fn shrink_segment(&mut self, segment: u32) -> bool {
        let segment = segment.max(DEFAULT_SEGMENT);
        let smaller = segment < self.segment;
        if smaller {
            self.segment = segment;
            self.congestion.set_segment(segment);
            self.sent.all_lost();
            self.urgent = true;
        }
        smaller
    }

    /// Whether a sequence number is one of what is on the way; an error message that quotes another is forged.
    pub(crate) fn is_in_flight(&self, number: u32) -> bool {
        let at = place(self.first_out, self.acknowledged, TcpSeqNumber(number as i32));
        self.phase == Phase::Asking || (at >= self.acknowledged as i64 && at <= self.next as i64)
    }

    /// Where the owner's bytes end.
    fn outbox_end(&self) -> u64 {
        self.outbox_at + self.outbox.len() as u64
    }
}

/// Where in a stream a sequence number is: the place nearest to `near`, with the stream's first byte at `first`.
fn place(first: u32, near: u64, number: TcpSeqNumber) -> i64 {
    let expected = first.wrapping_add(near as u32);
    near as i64 + i64::from((number.0 as u32).wrapping_sub(expected) as i32)
}

/// The sequence number of a place.
fn number(first: u32, place: u64) -> TcpSeqNumber {
    TcpSeqNumber(first.wrapping_add(place as u32) as i32)
}
