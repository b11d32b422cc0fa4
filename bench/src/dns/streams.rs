//! Questions by TCP: as many connections as in a small site, each with many questions on the way.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::questions::{Questions, SERVER};
use crate::compare::load::{Figures, Measured, Now, Settings, Stopwatch};
use crate::compare::net::{self, EventFlags, Poller};

const CONNECTIONS: usize = 16;
const DEEP: usize = 16;
const WARM_UP: Duration = Duration::from_millis(500);
const LENGTH: Duration = Duration::from_secs(4);
const TICK: Duration = Duration::from_millis(50);

struct Connection {
    socket: OwnedFd,
    /// Bytes of answers that are not whole yet.
    read: Vec<u8>,
    /// Bytes of questions that did not fit.
    write: Vec<u8>,
    next: usize,
}

pub(crate) fn run(questions: &Questions, settings: &Settings<'_>) -> anyhow::Result<Measured> {
    let mut poller = Poller::new()?;
    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        let socket = net::connect(SERVER, number).context("can't connect")?;
        poller.add(&socket, number, EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
        let mut connection = Connection { socket, read: Vec::new(), write: Vec::new(), next: number * 601 };
        connection.ask(questions, DEEP);
        connections.push(connection);
    }
    let mut watch = Stopwatch::new(settings, WARM_UP, LENGTH);
    let (mut answered, mut buffer) = (0_u64, vec![0; 64 << 10]);
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => answered = 0,
            Now::Over => break,
        }
        for place in 0..poller.wait(Some(TICK))? {
            let (number, _) = poller.event(place);
            answered += connections[number].step(questions, &mut buffer)?;
        }
    }
    let spent = watch.stop();
    ensure!(spent.seconds > 0.0, "the machine was too busy to measure");
    let answered = answered as f64;
    Ok((
        spent,
        Figures::from([("questions", answered), ("perSecond", answered / spent.seconds), ("lost", 0.0)]),
    ))
}

impl Connection {
    fn ask(&mut self, questions: &Questions, count: usize) {
        for _ in 0..count {
            let packet = questions.packet(self.next);
            self.write.extend((packet.len() as u16).to_be_bytes());
            self.write.extend(packet);
            self.next = (self.next + 1) % questions.len();
        }
    }

    /// Takes all answers that are there, and asks as many questions again.
    fn step(&mut self, questions: &Questions, buffer: &mut [u8]) -> anyhow::Result<u64> {
        let mut answered = 0;
        loop {
            match net::receive(&self.socket, buffer) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(length) => self.read.extend_from_slice(&buffer[..length]),
                Err(error) if net::is_early(&error) => break,
                Err(error) => return Err(error).context("no answer"),
            }
            let mut rest = &self.read[..];
            while let Some((length, after)) = rest.split_first_chunk::<2>()
                && let Some((packet, after)) =
                    after.split_at_checked(usize::from(u16::from_be_bytes(*length)))
            {
                ensure!(questions.is_answer(packet), "a wrong answer");
                answered += 1;
                rest = after;
            }
            let left = rest.len();
            self.read.drain(..self.read.len() - left);
        }
        self.ask(questions, answered);
        while !self.write.is_empty() {
            match net::send(&self.socket, &self.write) {
                Ok(sent) => drop(self.write.drain(..sent)),
                Err(error) if net::is_early(&error) => break,
                Err(error) => return Err(error).context("can't ask"),
            }
        }
        Ok(answered as u64)
    }
}
