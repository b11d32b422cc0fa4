//! New connections as fast as they go, so many at a time: connect, first bytes, an answer, the end. Every answer is
//! checked.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::{Figures, Measured, Now, Settings, Stopwatch, TICK, nanos, quantiles};
use crate::compare::net::{self, EventFlags, Poller};
use crate::compare::target::{Order, Target};

const WARM_UP: Duration = Duration::from_secs(1);
const LENGTH: Duration = Duration::from_secs(8);
/// A connection that takes longer has failed.
const STUCK: Duration = Duration::from_secs(3);
const MESSAGE: [u8; 64] = [0x55; 64];
const FAILURES: u64 = 10_000;

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Eight bytes back that name the backend, which then closes; 64 at a time.
    Reply,
    /// 64 bytes there and back, then the client closes; 100 at a time.
    Echo,
}

struct Slot {
    socket: OwnedFd,
    place: usize,
    started: Instant,
    sent: bool,
    answer: Vec<u8>,
}

struct Client<'a> {
    target: &'a Target,
    exchange: Exchange,
    poller: Poller,
    slots: Vec<Slot>,
    opening: Vec<u8>,
    dice: u64,
    turn: usize,
    failed: u64,
    last_failure: String,
}

pub(crate) fn run(target: &Target, settings: &Settings<'_>, exchange: Exchange) -> anyhow::Result<Measured> {
    let mut client = Client {
        target,
        exchange,
        poller: Poller::new()?,
        slots: Vec::new(),
        opening: Vec::new(),
        dice: 0x2545_F491_4F6C_DD1D,
        turn: 0,
        failed: 0,
        last_failure: String::new(),
    };
    for number in 0..if exchange == Exchange::Reply { 64 } else { 100 } {
        client.start(number)?;
    }
    let mut times = Vec::with_capacity(1 << 20);
    let mut watch = Stopwatch::new(settings, WARM_UP, LENGTH);
    let mut swept = Instant::now();
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => {
                times.clear();
                client.failed = 0;
            }
            Now::Over => break,
        }
        for event in 0..client.poller.wait(Some(TICK))? {
            let (number, _) = client.poller.event(event);
            match client.go_on(number) {
                Ok(false) => continue,
                Ok(true) => times.push(nanos(client.slots[number].started)),
                Err(error) => client.fail(&error)?,
            }
            client.start(number)?;
        }
        if swept.elapsed() >= STUCK {
            swept = Instant::now();
            for number in 0..client.slots.len() {
                if client.slots[number].started.elapsed() >= STUCK {
                    client.fail(&anyhow::anyhow!("a connection took more than {} s", STUCK.as_secs()))?;
                    client.start(number)?;
                }
            }
        }
    }
    let spent = watch.stop();
    if times.is_empty() {
        bail!("no connection succeeded: {}", client.last_failure);
    }
    let mut figures = Figures::from([
        ("connections", times.len() as f64),
        ("perSecond", times.len() as f64 / spent.seconds),
        ("failed", client.failed as f64),
    ]);
    quantiles(&mut times, &mut figures);
    Ok((spent, figures))
}

impl Client<'_> {
    /// Puts a new connection into a slot; the old one is closed.
    fn start(&mut self, number: usize) -> anyhow::Result<()> {
        // Names in no order, so that no cache of the proxy helps; the same order for every proxy.
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let place = (self.dice >> 20) as usize % self.target.len();
        self.turn += 1;
        let started = Instant::now();
        let socket = self.target.connect(place, self.turn).context("can't connect")?;
        self.open(place);
        let sent = net::send(&socket, &self.opening).is_ok_and(|count| count == self.opening.len());
        self.poller.add(&socket, number, if sent { EventFlags::IN } else { EventFlags::OUT })?;
        let slot = Slot { socket, place, started, sent, answer: Vec::with_capacity(MESSAGE.len()) };
        match self.slots.get_mut(number) {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
        Ok(())
    }

    /// Makes the first bytes of a connection.
    fn open(&mut self, place: usize) {
        match self.exchange {
            Exchange::Reply => self.target.opening(place, Order::Reply, 0, &mut self.opening),
            Exchange::Echo => {
                self.target.opening(place, Order::Echo, 0, &mut self.opening);
                self.opening.extend_from_slice(&MESSAGE);
            }
        }
    }

    /// Goes on with a connection; `true` when it has ended well.
    fn go_on(&mut self, number: usize) -> anyhow::Result<bool> {
        if !self.slots[number].sent {
            self.open(self.slots[number].place);
        }
        let slot = &mut self.slots[number];
        if !slot.sent {
            match net::send(&slot.socket, &self.opening) {
                Ok(count) if count == self.opening.len() => {
                    slot.sent = true;
                    self.poller.modify(&slot.socket, number, EventFlags::IN)?;
                }
                Ok(_) => bail!("the first bytes did not fit"),
                Err(error) if net::is_early(&error) => {}
                Err(error) => return Err(error).context("sending failed"),
            }
            return Ok(false);
        }
        let mut buffer = [0; 2 * MESSAGE.len()];
        loop {
            match net::receive(&slot.socket, &mut buffer) {
                Ok(0) => {
                    ensure!(self.exchange == Exchange::Reply, "the end came early");
                    self.target.check(slot.place, &slot.answer)?;
                    return Ok(true);
                }
                Ok(count) => slot.answer.extend_from_slice(&buffer[..count]),
                Err(error) if net::is_early(&error) => return Ok(false),
                Err(error) => return Err(error).context("receiving failed"),
            }
            if self.exchange == Exchange::Echo && slot.answer.len() >= MESSAGE.len() {
                ensure!(slot.answer == MESSAGE, "other bytes came back");
                return Ok(true);
            }
        }
    }

    fn fail(&mut self, error: &anyhow::Error) -> anyhow::Result<()> {
        self.failed += 1;
        self.last_failure = format!("{error:#}");
        if self.failed > FAILURES {
            bail!("too many connections failed, the last one: {error:#}");
        }
        Ok(())
    }
}
