//! The path and the two ends on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use causeway_base::Budget;
use causeway_testkit::Dice;
use smoltcp::wire::{TcpControl, TcpRepr};

use crate::tcp::memory::Memory;
use crate::tcp::{Connection, Phase, Read, Settings};

/// Bytes that an owner writes or reads at once.
const MOST: u64 = 64 << 10;

/// What happens to segments.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// One way.
    pub delay: Duration,
    /// More, by chance.
    pub jitter: Duration,
    /// Of a million segments.
    pub loss: u64,
    pub copies: u64,
    /// Bytes a second, and how many wait for it at most.
    pub rate: Option<(f64, usize)>,
    /// Larger segments vanish.
    pub widest: usize,
    pub seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(10),
            jitter: Duration::ZERO,
            loss: 0,
            copies: 0,
            rate: None,
            widest: usize::MAX,
            seed: 1,
        }
    }
}

/// One end with what its owner does.
pub(super) struct Host {
    pub connection: Connection,
    /// How much it says, and how much of that is written.
    pub says: u64,
    pub written: u64,
    /// How much it has read, and whether it saw the end.
    pub read: u64,
    pub ended: bool,
    /// How much it reads at most in each millisecond.
    pub reads: u64,
    pub finishes: bool,
    read_at: Instant,
    free_at: Instant,
}

struct Flying {
    header: TcpRepr<'static>,
    payload: Vec<u8>,
}

pub(super) struct World {
    pub now: Instant,
    pub start: Instant,
    pub path: Path,
    pub hosts: [Host; 2],
    flying: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    segments: Vec<Option<Flying>>,
    dice: Dice,
    pub sent: u64,
    pub lost: u64,
    /// The longest time in which no byte was read by anybody.
    pub stall: Duration,
    moved: Instant,
    /// Nothing gets through at all.
    pub cut: bool,
}

fn settings() -> Settings {
    Settings {
        largest_window: 4 << 20,
        memories: Budget::new(1 << 30),
        keepalive: Duration::from_mins(1),
        give_up: Duration::from_mins(2),
    }
}

/// What a host says at a place of its stream; it repeats itself seldom, and never by a power of two.
fn said(host: usize, place: u64, length: usize) -> &'static [u8] {
    const PERIOD: usize = 65_521;
    static TALK: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut dice = Dice::new(5);
        let talk: Vec<u8> = (0..PERIOD).map(|_| dice.below(256) as u8).collect();
        talk.repeat(3)
    });
    let at = (place + 7 * host as u64) as usize % PERIOD;
    &TALK[at..at + length]
}

impl World {
    /// Two hosts that will say so much, connected as soon as it runs.
    pub(super) fn new(path: Path, says: [u64; 2], segment: u16) -> Self {
        let now = Instant::now();
        let settings = settings();
        let memory = |last| Memory::open(&settings.memories, [10, 0, 0, last].into()).unwrap();
        let mut client = Connection::asking(&settings, memory(1), segment, now);
        let syn = client.next_segment(now).unwrap();
        // The first SYN gets through.
        let now = now + path.delay;
        let mut server = Connection::asked(&settings, memory(2), segment, &syn.header, now);
        server.accept();
        let host = |connection, says| Host {
            connection,
            says,
            written: 0,
            read: 0,
            ended: false,
            reads: u64::MAX,
            finishes: true,
            read_at: now,
            free_at: now,
        };
        Self {
            now,
            start: now,
            dice: Dice::new(path.seed),
            path,
            hosts: [host(client, says[0]), host(server, says[1])],
            flying: BinaryHeap::new(),
            segments: Vec::new(),
            sent: 0,
            lost: 0,
            stall: Duration::ZERO,
            moved: now,
            cut: false,
        }
    }

    fn chance(&mut self, million: u64) -> bool {
        million > 0 && self.dice.below(1_000_000) < million
    }

    fn owner(&mut self, index: usize) {
        let now = self.now;
        let host = &mut self.hosts[index];
        while host.written < host.says {
            let count = (host.says - host.written).min(MOST) as usize;
            match host.connection.write(said(index, host.written, count)) {
                Ok(0) | Err(_) => break,
                Ok(count) => host.written += count as u64,
            }
        }
        if host.written == host.says && host.finishes {
            host.connection.finish();
        }
        let since = now.saturating_duration_since(host.read_at).as_millis() as u64;
        let mut may = if host.reads == u64::MAX { u64::MAX } else { since * host.reads };
        if may > 0 {
            host.read_at = now;
        }
        while may > 0 {
            let (front, read) = host.connection.peek();
            match read {
                Read::Bytes(count) => {
                    let count = (count as u64).min(may).min(MOST) as usize;
                    assert!(front[..count] == *said(1 - index, host.read, count), "at {}", host.read);
                    host.read += count as u64;
                    may -= count as u64;
                    host.connection.consume(count, now);
                    self.stall = self.stall.max(now - self.moved);
                    self.moved = now;
                }
                Read::Ended => {
                    host.ended = true;
                    break;
                }
                Read::Nothing | Read::Failed(_) => break,
            }
        }
    }

    fn transmit(&mut self, index: usize) {
        let mut turns = 0;
        while let Some(outgoing) = self.hosts[index].connection.next_segment(self.now) {
            turns += 1;
            assert!(turns < 10_000, "it never stops sending");
            let mut payload = vec![0; outgoing.length];
            self.hosts[index].connection.fill(&outgoing, &mut payload);
            self.sent += 1;
            let size = payload.len() + outgoing.header.header_len() + 20;
            let mut at = self.now + self.path.delay;
            if let Some((rate, room)) = self.path.rate {
                let host = &mut self.hosts[index];
                let waits = host.free_at.saturating_duration_since(self.now);
                if waits.as_secs_f64() * rate > room as f64 {
                    self.lost += 1;
                    continue;
                }
                host.free_at = host.free_at.max(self.now) + Duration::from_secs_f64(size as f64 / rate);
                at = host.free_at + self.path.delay;
            }
            at += self.dice.below_duration(self.path.jitter);
            let loss = self.path.loss;
            if self.cut || self.chance(loss) || size > self.path.widest {
                self.lost += 1;
                continue;
            }
            let copies = 1 + usize::from(self.chance(self.path.copies));
            for _ in 0..copies {
                let flying = Flying { header: outgoing.header, payload: payload.clone() };
                self.flying.push(Reverse((at, self.segments.len() as u64, 1 - index)));
                self.segments.push(Some(flying));
                at += self.dice.below_duration(self.path.jitter);
            }
        }
    }

    /// One moment; false when nothing will ever happen again.
    pub(super) fn step(&mut self) -> bool {
        while let Some(Reverse((at, number, to))) = self.flying.peek().copied() {
            if at > self.now {
                break;
            }
            self.flying.pop();
            let flying = self.segments[number as usize].take().unwrap();
            let segment = TcpRepr { payload: &flying.payload, ..flying.header };
            self.hosts[to].connection.take(&segment, self.now);
        }
        for index in 0..2 {
            let connection = &mut self.hosts[index].connection;
            if connection.deadline().is_some_and(|deadline| deadline <= self.now) {
                connection.tick(self.now);
            }
            self.owner(index);
            self.transmit(index);
        }
        let flying = self.flying.peek().map(|Reverse((at, ..))| *at);
        let timers = self.hosts.iter().filter_map(|host| host.connection.deadline());
        let slow = self
            .hosts
            .iter()
            .any(|host| host.reads < u64::MAX && host.connection.is_readable() && !host.ended);
        let reads = slow.then(|| self.now + Duration::from_millis(1));
        let Some(next) = flying.into_iter().chain(timers).chain(reads).min() else { return false };
        self.now = next.max(self.now);
        true
    }

    /// Runs until so, or for so long; says whether it came to that.
    pub(super) fn run(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> bool {
        while !done(self) {
            if self.now - self.start > limit || !self.step() {
                return done(self);
            }
        }
        true
    }

    /// Whether both have all that the other said, and its end.
    pub(super) fn is_complete(&self) -> bool {
        let [one, two] = &self.hosts;
        one.ended && two.ended && one.read == two.says && two.read == one.says
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    pub(super) fn since(&self, then: Duration) -> Duration {
        self.elapsed().saturating_sub(then)
    }

    pub(super) fn phases(&self) -> [Phase; 2] {
        [self.hosts[0].connection.phase(), self.hosts[1].connection.phase()]
    }

    /// A segment that host `to` would get, made by hand from what the other would send.
    pub(super) fn forge(&self, control: TcpControl, to: usize, ahead: i64) -> TcpRepr<'static> {
        let (target, other) = (&self.hosts[to].connection, &self.hosts[1 - to].connection);
        let mut header = super::super::outbound::reset_for(&TcpRepr {
            src_port: 1,
            dst_port: 1,
            control: TcpControl::None,
            seq_number: super::super::number(other.first_in, other.received),
            ack_number: None,
            window_len: 1000,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        })
        .unwrap();
        header.control = control;
        header.seq_number = super::super::number(target.first_in, (target.received as i64 + ahead) as u64);
        header.ack_number = Some(super::super::number(target.first_out, target.acknowledged));
        header.window_len = 1000;
        header
    }
}
