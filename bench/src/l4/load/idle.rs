//! Connections that have carried something and are then left alone.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::PollFlags;

use crate::l4::net;
use crate::l4::target::{Order, Target};

/// Opened before their answers are awaited.
const BATCH: usize = 50;
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens connections that each get `bytes` bytes back; as many as could be had, and why no more.
pub fn open(target: &Target, count: usize, bytes: u64) -> (Vec<OwnedFd>, Option<anyhow::Error>) {
    let mut sockets = Vec::with_capacity(count);
    while sockets.len() < count {
        match batch(target, sockets.len(), BATCH.min(count - sockets.len()), bytes) {
            Ok(batch) => sockets.extend(batch),
            Err(error) => return (sockets, Some(error)),
        }
    }
    (sockets, None)
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
