//! What a connection waits for, and what it does when that time has come.

use std::time::{Duration, Instant};

use super::{Connection, Failure, Phase};

/// A lone segment is acknowledged after this, if nothing is sent that could carry the acknowledgement.
const ACKNOWLEDGE: Duration = Duration::from_millis(2);
/// How long the other end may delay its acknowledgement of a single segment.
const DELAYED: Duration = Duration::from_millis(50);
/// Between two answers to what may be forged.
const CHALLENGE: Duration = Duration::from_millis(100);
/// Waits double up to this, so that a path that comes back is noticed.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(8);
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// A SYN that is younger is still on its way.
const NUDGED: Duration = Duration::from_millis(200);
/// How often a SYN or its answer is repeated.
const ATTEMPTS: u32 = 6;
/// How long an ended connection answers what is still on the way.
const LINGER: Duration = Duration::from_secs(10);
/// How long the other end may go on after everybody here has left.
const ABANDONED: Duration = Duration::from_secs(30);
/// Between probes of a silent other end, and how many go unanswered before it is taken for gone.
pub(super) const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;
/// Segments that go through everywhere, tried when larger ones seem to vanish.
const SAFE_SEGMENTS: [(u32, u32); 2] = [(2, 1220), (4, 536)];

/// Times to come, and times that were.
#[derive(Debug)]
pub(super) struct Timers {
    /// Something must be acknowledged to the other end.
    acknowledge: Option<Instant>,
    /// Segments that may be lost are looked at again.
    pub(super) look: Option<Instant>,
    /// The end of what was sent is probed.
    pub(super) tail: Option<Instant>,
    /// Nothing came back.
    timeout: Option<Instant>,
    /// The other end's window is shut: ask.
    shut: Option<Instant>,
    keepalive: Option<Instant>,
    /// The connection is forgotten.
    pub(super) forget: Option<Instant>,
    /// More may be sent.
    pub(super) pace: Option<Instant>,

    began: Instant,
    syn_sent: Option<Instant>,
    syn_count: u32,
    heard: Instant,
    /// When the other end last said that something arrived, or the first of what is on the way was sent.
    progress: Instant,
    sent: Instant,
    challenged: Option<Instant>,
    /// Timeouts without an answer.
    pub(super) backoff: u32,
    probes: u32,
}

impl Timers {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            acknowledge: None,
            look: None,
            tail: None,
            timeout: None,
            shut: None,
            keepalive: None,
            forget: None,
            pace: None,
            began: now,
            syn_sent: None,
            syn_count: 0,
            heard: now,
            progress: now,
            sent: now,
            challenged: None,
            backoff: 0,
            probes: 0,
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let all = [
            self.acknowledge,
            self.look,
            self.tail,
            self.timeout,
            self.shut,
            self.keepalive,
            self.forget,
            self.pace,
        ];
        all.into_iter().flatten().min()
    }

    pub(super) fn stop(&mut self) {
        *self = Self::new(self.began);
    }

    pub(super) fn syn_sent(&mut self, now: Instant) {
        self.syn_count += 1;
        self.syn_sent = Some(now);
        self.timeout = Some(now + (FIRST_TIMEOUT * (1 << (self.syn_count - 1).min(4))).min(LONGEST_TIMEOUT));
    }

    /// The SYN was answered; how long that took, if it was sent once.
    pub(super) fn opened(&mut self, now: Instant, keepalive: Duration) -> Option<Duration> {
        (self.timeout, self.progress) = (None, now);
        self.heard(now, keepalive);
        let sent = self.syn_sent.take().filter(|_| self.syn_count == 1)?;
        Some(now.saturating_duration_since(sent))
    }

    pub(super) fn heard(&mut self, now: Instant, keepalive: Duration) {
        (self.heard, self.probes) = (now, 0);
        self.keepalive = Some(now + keepalive);
    }

    pub(super) fn progressed(&mut self, now: Instant) {
        (self.progress, self.backoff) = (now, 0);
    }

    pub(super) fn window_open(&mut self) {
        if self.shut.take().is_some() {
            self.backoff = 0;
        }
    }

    pub(super) fn linger(&mut self, now: Instant) {
        self.stop();
        self.forget = Some(now + LINGER);
    }

    pub(super) fn abandoned(&mut self, now: Instant) {
        self.forget.get_or_insert(now + ABANDONED);
    }

    pub(super) fn delay_acknowledgement(&mut self, now: Instant) {
        self.acknowledge.get_or_insert(now + ACKNOWLEDGE);
    }

    pub(super) fn acknowledged(&mut self) {
        self.acknowledge = None;
    }

    pub(super) fn may_challenge(&mut self, now: Instant) -> bool {
        let may = self.challenged.is_none_or(|last| now.saturating_duration_since(last) >= CHALLENGE);
        if may {
            self.challenged = Some(now);
        }
        may
    }
}

/// Whether a time has come; it is forgotten if so.
fn due(timer: &mut Option<Instant>, now: Instant) -> bool {
    timer.take_if(|at| *at <= now).is_some()
}

impl Connection {
    /// When something is to be done without a segment; then [`Connection::tick`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// From now on the other end is taken for gone when it is not heard for so long. It is asked before, often enough that a few
    /// lost packets are no silence.
    pub(crate) fn limit_silence(&mut self, limit: Duration, now: Instant) {
        self.settings.keepalive = limit / 3;
        self.probe_every = limit * 2 / 3 / PROBES;
        if self.phase == Phase::Open {
            self.timers.heard(now, self.settings.keepalive);
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        due(&mut self.timers.pace, now);
        if due(&mut self.timers.acknowledge, now) {
            self.ack_due = true;
        }
        if due(&mut self.timers.forget, now) {
            match self.phase {
                Phase::Lingering => self.close(),
                _ => self.abort(Failure::TimedOut),
            }
            return;
        }
        if due(&mut self.timers.look, now) {
            let lost = self.look_for_lost(now);
            self.count_lost(lost);
        }
        if due(&mut self.timers.timeout, now) {
            self.timed_out(now);
        } else if due(&mut self.timers.tail, now) && !self.sent.is_empty() {
            self.tail_due = true;
        }
        if due(&mut self.timers.shut, now) {
            self.timers.backoff = (self.timers.backoff + 1).min(16);
            self.probe(now);
        }
        if due(&mut self.timers.keepalive, now) && self.phase == Phase::Open {
            if self.timers.probes >= PROBES {
                self.abort(Failure::TimedOut);
                return;
            }
            self.timers.probes += 1;
            self.timers.keepalive = Some(now + self.probe_every);
            self.probe_due = true;
        }
    }

    /// The path is there again; says whether something waited for that.
    pub(crate) fn nudge(&mut self, now: Instant) -> bool {
        let waited = match self.phase {
            Phase::Asking | Phase::Answered => {
                self.timers.syn_sent.is_some_and(|sent| now.saturating_duration_since(sent) >= NUDGED)
            }
            Phase::Open => self.timers.backoff > 0,
            _ => false,
        };
        if !waited {
            return false;
        }
        self.timers.backoff = 0;
        if self.timers.shut.take().is_some() {
            self.probe(now);
        } else {
            self.timed_out(now);
        }
        true
    }

    /// Asks the other end whether it has room again.
    fn probe(&mut self, now: Instant) {
        if now.saturating_duration_since(self.timers.heard) > self.settings.give_up {
            self.abort(Failure::TimedOut);
        } else {
            self.probe_due = true;
        }
    }

    fn timed_out(&mut self, now: Instant) {
        match self.phase {
            Phase::Asking | Phase::Answered => {
                if self.timers.syn_count >= ATTEMPTS {
                    self.abort(Failure::TimedOut);
                } else {
                    self.syn_due = true;
                }
            }
            Phase::Open if !self.sent.is_empty() => {
                if now.saturating_duration_since(self.timers.progress) > self.settings.give_up {
                    self.abort(Failure::TimedOut);
                    return;
                }
                self.timers.backoff += 1;
                for (backoff, segment) in SAFE_SEGMENTS {
                    if self.timers.backoff == backoff && self.segment > segment {
                        self.shrink_segment(segment);
                    }
                }
                self.sent.all_lost();
                if self.timers.backoff == 1 {
                    self.congestion.timed_out();
                }
                self.recovery = Some(self.next);
                self.urgent = true;
                (self.timers.look, self.timers.tail, self.tail_due) = (None, None, false);
                self.timers.timeout = Some(now + self.timeout());
            }
            _ => {}
        }
    }

    fn timeout(&self) -> Duration {
        (self.trip.timeout() * (1 << self.timers.backoff.min(8))).min(LONGEST_TIMEOUT)
    }

    /// Sets the times by which an answer to what is on the way must have come.
    pub(super) fn arm(&mut self, now: Instant, anew: bool) {
        if self.sent.is_empty() {
            (self.timers.timeout, self.timers.tail) = (None, None);
            return;
        }
        if anew || self.timers.timeout.is_none() {
            self.timers.timeout = Some(now + self.timeout());
        }
        self.timers.tail = None;
        if let Some(smoothed) = self.trip.smoothed().filter(|_| self.recovery.is_none() && self.selects) {
            let delayed = if self.sent.len() == 1 { DELAYED } else { ACKNOWLEDGE };
            let tail = now + smoothed * 2 + delayed;
            if self.timers.timeout.is_some_and(|timeout| tail < timeout) {
                self.timers.tail = Some(tail);
            }
        }
    }

    /// Something of the stream was sent.
    pub(super) fn note_sent(&mut self, now: Instant, was_empty: bool) {
        if was_empty {
            self.timers.progress = now;
        }
        self.timers.sent = now;
        self.arm(now, was_empty);
    }

    /// What was known of the path fades while nothing is sent.
    pub(super) fn note_rest(&mut self, now: Instant) {
        let rest = now.saturating_duration_since(self.timers.sent);
        let timeout = self.trip.timeout();
        if self.sent.is_empty() && rest > timeout {
            let timeouts = rest.as_millis() / timeout.as_millis().max(1);
            self.congestion.rested(timeouts.min(16) as u32);
            self.timers.sent = now;
        }
    }

    /// The window is shut, or so small that nothing fits: ask after a while.
    pub(super) fn wait_for_window(&mut self, now: Instant) {
        if self.timers.shut.is_none() && self.sent.is_empty() {
            self.timers.shut = Some(now + self.timeout());
        }
    }

    #[cfg(test)]
    pub(super) fn timers_of_shut_window(&self) -> bool {
        self.timers.shut.is_some()
    }
}
