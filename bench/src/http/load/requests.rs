//! Requests by HTTP/1.1, one at a time on each connection. Every answer is checked.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::answer::Answer;
use super::count::{Count, Dice};
use super::wire::{Heard, Wire};
use super::world::World;
use crate::compare::load::{Measured, Now, Settings, Stopwatch, TICK};
use crate::compare::net::{EventFlags, Poller};

/// Connections at a time.
pub(super) const CONNECTIONS: usize = 64;
pub(super) const BUFFER: usize = 64 << 10;
pub(super) const WARM_UP: Duration = Duration::from_secs(1);
/// From one request to the next where there are 5,000 a second.
const PACE: Duration = Duration::from_micros(200);

/// What happens after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// The next request on the same connection.
    Kept,
    /// The same when it is time.
    Paced,
    /// The next request on a new connection.
    Fresh,
}

struct Slot {
    wire: Wire,
    answer: Answer,
    place: usize,
    since: Instant,
}

struct Load<'a> {
    world: &'a World,
    manner: Manner,
    poller: Poller,
    slots: Vec<Slot>,
    /// Slots that wait for their time.
    free: VecDeque<usize>,
    count: Count,
    dice: Dice,
    turn: usize,
    buffer: Vec<u8>,
}

pub(super) fn run(
    world: &World,
    settings: &Settings<'_>,
    length: Duration,
    manner: Manner,
) -> anyhow::Result<Measured> {
    let mut load = Load {
        world,
        manner,
        poller: Poller::new()?,
        slots: Vec::new(),
        free: VecDeque::new(),
        count: Count::new(),
        dice: Dice::new(),
        turn: 0,
        buffer: vec![0; BUFFER],
    };
    for number in 0..CONNECTIONS {
        load.open(number)?;
    }
    let mut watch = Stopwatch::new(settings, WARM_UP, length);
    let mut due = Instant::now();
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => load.count.begin(),
            Now::Over => break,
        }
        let wait = if manner == Manner::Paced { load.ask_due(&mut due)? } else { TICK };
        for event in 0..load.poller.wait(Some(wait))? {
            let (number, _) = load.poller.event(event);
            if let Err(error) = load.step(number) {
                load.count.fail(&error)?;
                load.open(number)?;
            }
        }
    }
    let (spent, resumed) = (watch.stop(), load.count.part_resumed());
    let mut figures = load.count.figures(&spent)?;
    if manner == Manner::Fresh {
        figures.insert("resumed", resumed);
    }
    Ok((spent, figures))
}

impl Load<'_> {
    /// Puts a new connection into a slot, with a request on it; the old one is closed.
    fn open(&mut self, number: usize) -> anyhow::Result<()> {
        let place = self.dice.below(self.world.asks.len());
        self.turn += 1;
        let since = Instant::now();
        let mut wire = self.world.open(place, number, self.turn)?;
        wire.say(&self.world.asks[place].request)?;
        self.poller.add(&wire.socket, number, EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
        let slot = Slot { wire, answer: Answer::default(), place, since };
        match self.slots.get_mut(number) {
            Some(old) => std::mem::replace(old, slot).wire.close(),
            None => self.slots.push(slot),
        }
        Ok(())
    }

    fn ask(&mut self, number: usize, since: Instant) -> anyhow::Result<()> {
        let place = self.dice.below(self.world.asks.len());
        let slot = &mut self.slots[number];
        (slot.place, slot.since) = (place, since);
        slot.wire.say(&self.world.asks[place].request)
    }

    /// Sends what it is time for, and says how long the next may wait.
    fn ask_due(&mut self, due: &mut Instant) -> anyhow::Result<Duration> {
        let now = Instant::now();
        while *due <= now {
            // With every connection busy, the next that is free is late, and its time says so.
            let Some(number) = self.free.pop_front() else { return Ok(TICK) };
            if let Err(error) = self.ask(number, *due) {
                self.count.fail(&error)?;
                self.open(number)?;
            }
            *due += PACE;
        }
        Ok(TICK.min(due.duration_since(now)))
    }

    /// Goes on with a connection as far as it can.
    fn step(&mut self, number: usize) -> anyhow::Result<()> {
        let Slot { wire, answer, place, since } = &mut self.slots[number];
        let expected = self.world.asks[*place].expected;
        let mut whole = false;
        let heard = wire.hear(&mut self.buffer, |bytes| {
            ensure!(!whole, "more came than was asked for");
            whole = answer.take(bytes, expected)?;
            Ok(())
        })?;
        if whole {
            self.count.done(*since);
            if self.manner == Manner::Fresh {
                if wire.is_resumed() {
                    self.count.resumed();
                }
                return self.open(number);
            }
        }
        if heard == Heard::Ended {
            bail!("the connection was closed");
        }
        match self.manner {
            Manner::Kept if whole => self.ask(number, Instant::now()),
            Manner::Paced if whole => {
                self.free.push_back(number);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
