//! Memory of connections that have carried something and are then left alone, and after they closed.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::PollFlags;
use rustix::process::{Resource, getrlimit};

use super::{Figures, Measured, SETTLE};
use crate::compare::accounts::Spent;
use crate::compare::net;
use crate::compare::running::Running;
use crate::compare::target::{Order, Target};

/// Connections, where the descriptors allow it: each takes two of a candidate, which keeps some for itself.
const COUNT: u64 = 5000;
const OWN_DESCRIPTORS: u64 = 600;
/// Opened before their answers are awaited.
const BATCH: usize = 50;
const PATIENCE: Duration = Duration::from_secs(5);
/// Until memory of closed connections was given back, by those who do it in their own time.
const GIVEN_BACK: Duration = Duration::from_secs(15);

/// Holds connections that each got `bytes` bytes.
pub(crate) fn run(
    running: &Running,
    target: &Target,
    wanted: Option<usize>,
    bytes: u64,
) -> anyhow::Result<Measured> {
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let possible = (descriptors.saturating_sub(OWN_DESCRIPTORS) / 2).min(COUNT) as usize;
    std::thread::sleep(SETTLE);
    let before = running.memory();
    let mut sockets = Vec::new();
    let count = wanted.unwrap_or(possible);
    while sockets.len() < count {
        let more = batch(target, sockets.len(), BATCH.min(count - sockets.len()), bytes);
        sockets.extend(more.with_context(|| format!("only {} connections could be had", sockets.len()))?);
    }
    std::thread::sleep(SETTLE);
    let held = running.memory();
    drop(sockets);
    std::thread::sleep(GIVEN_BACK);
    let figures = Figures::from([
        ("connections", count as f64),
        ("memoryBefore", before),
        ("memoryHeld", held),
        ("memoryAfter", running.memory()),
        ("perConnection", (held - before) / count as f64),
    ]);
    Ok((Spent::default(), figures))
}

fn batch(target: &Target, from: usize, count: usize, bytes: u64) -> anyhow::Result<Vec<OwnedFd>> {
    let sockets = (from..from + count)
        .map(|place| target.open(place, Order::Keep, bytes))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut buffer = vec![0; 64 << 10];
    for socket in &sockets {
        let mut got = 0;
        while got < bytes {
            if net::wait(socket, PollFlags::IN, PATIENCE)?.is_empty() {
                bail!("no answer within {} s", PATIENCE.as_secs());
            }
            match net::receive(socket, &mut buffer).context("a connection broke")? {
                0 => bail!("a connection ended"),
                count => got += count as u64,
            }
        }
    }
    Ok(sockets)
}
