//! One request after the other, to see whether a gateway serves.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use rustix::event::PollFlags;

use super::answer::Answer;
use super::requests::BUFFER;
use super::streams::Talk;
use super::wire::{Heard, Wire};
use super::world::World;
use crate::compare::net;
use crate::http::setting::Version;
use crate::http::workload::Workload;

const PATIENCE: Duration = Duration::from_secs(2);

/// Asks as the load of a row does.
pub(crate) struct Probe(World);

impl Probe {
    pub(crate) fn new(row: Workload, direct: bool, certificates: &Path) -> anyhow::Result<Self> {
        Ok(Self(World::new(row, direct, certificates)?))
    }

    /// Whether the first and the last request are answered.
    pub(crate) fn ask(&self) -> anyhow::Result<()> {
        match self.0.front() {
            Version::Http2 => second(&self.0),
            Version::Http1 => {
                first(&self.0, 0)?;
                first(&self.0, self.0.asks.len() - 1)
            }
        }
    }
}

/// Opens a connection and waits for the answer to one request on it.
pub(super) fn answered(world: &World, place: usize, turn: usize) -> anyhow::Result<Wire> {
    let mut wire = world.open(place, 0, turn)?;
    wire.say(&world.asks[place].request)?;
    finish(world, place, &mut wire)?;
    Ok(wire)
}

/// Waits for the answer to the request that was made on a connection.
pub(super) fn finish(world: &World, place: usize, wire: &mut Wire) -> anyhow::Result<()> {
    let (mut buffer, mut answer, mut whole) = (vec![0; BUFFER], Answer::default(), false);
    let started = Instant::now();
    while !whole {
        wait(wire, started)?;
        let heard = wire.hear(&mut buffer, |bytes| {
            whole = answer.take(bytes, world.asks[place].expected)?;
            Ok(())
        })?;
        ensure!(whole || heard == Heard::Open, "the connection was closed");
    }
    Ok(())
}

fn first(world: &World, place: usize) -> anyhow::Result<()> {
    answered(world, place, place).map(Wire::close)
}

fn second(world: &World) -> anyhow::Result<()> {
    let (mut talk, mut buffer, mut answers) = (Talk::open(world, 1, 0)?, vec![0; BUFFER], 0);
    let started = Instant::now();
    while answers == 0 {
        wait(&talk.wire, started)?;
        talk.step(&mut buffer, &mut |_| answers += 1)?;
    }
    Ok(())
}

fn wait(wire: &Wire, started: Instant) -> anyhow::Result<()> {
    let wanted = if wire.is_behind() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let left = PATIENCE.saturating_sub(started.elapsed());
    if net::wait(&wire.socket, wanted, left)?.is_empty() {
        bail!("no answer within {} s", PATIENCE.as_secs());
    }
    Ok(())
}
