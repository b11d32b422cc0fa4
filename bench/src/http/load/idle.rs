//! Memory of connections that have had one answer each and are then left alone.

use anyhow::Context;
use rustix::process::{Resource, getrlimit};

use super::probe;
use super::wire::Wire;
use super::world::World;
use crate::compare::accounts::Spent;
use crate::compare::load::{Figures, Measured, SETTLE, Settings};
use crate::compare::running::memory_of;

/// Connections, where the descriptors allow it: a gateway may take two for each, and keeps some for itself.
const COUNT: u64 = 5000;
const OWN_DESCRIPTORS: u64 = 600;
/// Opened before their answers are awaited.
const BATCH: usize = 32;

pub(super) fn run(world: &World, settings: &Settings<'_>) -> anyhow::Result<Measured> {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let possible = (descriptors.saturating_sub(OWN_DESCRIPTORS) / 2).min(COUNT) as usize;
    let count = settings.idle.unwrap_or(possible);
    let gateway = &settings.accounts.proxy;
    // The first connection to the backend and whatever is made when it is first needed.
    probe::answered(world, 0, 0)?.close();
    std::thread::sleep(SETTLE);
    let before = memory_of(gateway);
    let mut held: Vec<Wire> = Vec::new();
    while held.len() < count {
        let more = batch(world, held.len(), BATCH.min(count - held.len()));
        held.extend(more.with_context(|| format!("only {} connections could be had", held.len()))?);
    }
    std::thread::sleep(SETTLE);
    let after = memory_of(gateway);
    let figures = Figures::from([
        ("connections", count as f64),
        ("memoryBefore", before),
        ("memoryHeld", after),
        ("perConnection", (after - before) / count as f64),
    ]);
    Ok((Spent::default(), figures))
}

fn batch(world: &World, from: usize, count: usize) -> anyhow::Result<Vec<Wire>> {
    let mut wires = Vec::new();
    for turn in from..from + count {
        let mut wire = world.open(0, 0, turn)?;
        wire.say(&world.asks[0].request)?;
        wires.push(wire);
    }
    for wire in &mut wires {
        probe::finish(world, 0, wire)?;
    }
    Ok(wires)
}
