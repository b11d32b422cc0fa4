//! New streams as fast as 100 users can: connect, 64 bytes there and back, close.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::l4::accounts::{Accounts, Spent};
use crate::l4::load::{Figures, Now, Stopwatch, TICK, nanos, quantiles};
use crate::l4::net::{self, EventFlags, Poller};
use crate::l4::target::{Order, Target};

const USERS: usize = 100;
const MESSAGE: [u8; 64] = [0x55; 64];
const WARM_UP: Duration = Duration::from_secs(1);
/// A stream that takes longer has failed.
const STUCK: Duration = Duration::from_secs(3);
const FAILURES: u64 = 10_000;

struct User {
    socket: OwnedFd,
    started: Instant,
    sent: bool,
    got: usize,
}

struct Users<'a> {
    target: &'a Target,
    poller: Poller,
    each: Vec<User>,
    opening: Vec<u8>,
    turn: usize,
    failed: u64,
    last_failure: String,
}

pub fn run(target: &Target, accounts: &Accounts, length: Duration) -> anyhow::Result<(Spent, Figures)> {
    let mut opening = Vec::new();
    target.opening(0, Order::Echo, 0, &mut opening);
    opening.extend_from_slice(&MESSAGE);
    let mut users = Users {
        target,
        poller: Poller::new()?,
        each: Vec::with_capacity(USERS),
        opening,
        turn: 0,
        failed: 0,
        last_failure: String::new(),
    };
    for number in 0..USERS {
        users.start(number)?;
    }
    let mut times = Vec::with_capacity(1 << 20);
    let mut watch = Stopwatch::new(WARM_UP, length);
    let mut swept = Instant::now();
    loop {
        match watch.look(accounts) {
            Now::Going => {}
            Now::Begins => {
                times.clear();
                users.failed = 0;
            }
            Now::Over => break,
        }
        for event in 0..users.poller.wait(Some(TICK))? {
            let (number, _) = users.poller.event(event);
            match users.go_on(number) {
                Ok(false) => continue,
                Ok(true) => times.push(nanos(users.each[number].started)),
                Err(error) => users.fail(&error)?,
            }
            users.start(number)?;
        }
        if swept.elapsed() >= STUCK {
            swept = Instant::now();
            for number in 0..users.each.len() {
                if users.each[number].started.elapsed() >= STUCK {
                    users.fail(&anyhow::anyhow!("a stream took more than {} s", STUCK.as_secs()))?;
                    users.start(number)?;
                }
            }
        }
    }
    let spent = watch.stop();
    if times.is_empty() {
        bail!("no stream succeeded: {}", users.last_failure);
    }
    let mut figures = Figures::from([
        ("streams", times.len() as f64),
        ("perSecond", times.len() as f64 / spent.seconds),
        ("failed", users.failed as f64),
    ]);
    quantiles(&mut times, &mut figures);
    Ok((spent, figures))
}

impl Users<'_> {
    /// A user leaves the last stream and opens the next.
    fn start(&mut self, number: usize) -> anyhow::Result<()> {
        self.turn += 1;
        let started = Instant::now();
        let socket = self.target.connect(0, self.turn).context("can't connect")?;
        let sent = net::send(&socket, &self.opening).is_ok_and(|count| count == self.opening.len());
        self.poller.add(&socket, number, if sent { EventFlags::IN } else { EventFlags::OUT })?;
        let user = User { socket, started, sent, got: 0 };
        match self.each.get_mut(number) {
            Some(old) => *old = user,
            None => self.each.push(user),
        }
        Ok(())
    }

    /// Goes on with a stream; `true` when everything is back.
    fn go_on(&mut self, number: usize) -> anyhow::Result<bool> {
        let user = &mut self.each[number];
        if !user.sent {
            match net::send(&user.socket, &self.opening) {
                Ok(count) if count == self.opening.len() => {
                    user.sent = true;
                    self.poller.modify(&user.socket, number, EventFlags::IN)?;
                }
                Ok(_) => bail!("the first bytes did not fit"),
                Err(error) if net::is_early(&error) => {}
                Err(error) => return Err(error).context("sending failed"),
            }
            return Ok(false);
        }
        let mut buffer = [0; 2 * MESSAGE.len()];
        match net::receive(&user.socket, &mut buffer) {
            Ok(0) => bail!("the end came after {} bytes", user.got),
            Ok(count) => {
                ensure!(buffer[..count].iter().all(|byte| *byte == MESSAGE[0]), "other bytes came back");
                user.got += count;
                ensure!(user.got <= MESSAGE.len(), "more came back than was sent");
                Ok(user.got == MESSAGE.len())
            }
            Err(error) if net::is_early(&error) => Ok(false),
            Err(error) => Err(error).context("receiving failed"),
        }
    }

    fn fail(&mut self, error: &anyhow::Error) -> anyhow::Result<()> {
        self.failed += 1;
        self.last_failure = format!("{error:#}");
        if self.failed > FAILURES {
            bail!("too many streams failed, the last one: {error:#}");
        }
        Ok(())
    }
}
