//! Streams that move as much as they can, one way or both.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{Figures, Measured, Now, Settings, Stopwatch, TICK};
use crate::compare::backend::pattern;
use crate::compare::net::{self, EventFlags, Poller};
use crate::compare::target::{Order, Target};

const BUFFER: usize = 256 << 10;
const WARM_UP: Duration = Duration::from_millis(800);
const LENGTH: Duration = Duration::from_secs(4);
const GIB: f64 = (1u64 << 30) as f64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Down,
    Up,
    Both,
}

pub(crate) fn run(
    target: &Target,
    settings: &Settings<'_>,
    streams: usize,
    direction: Direction,
) -> anyhow::Result<Measured> {
    let (order, flags) = match direction {
        Direction::Down => (Order::Send, EventFlags::IN),
        Direction::Up => (Order::Take, EventFlags::OUT),
        Direction::Both => (Order::Both, EventFlags::IN | EventFlags::OUT),
    };
    let mut poller = Poller::new()?;
    let mut sockets = Vec::new();
    for place in 0..streams {
        let socket = target.open(place, order, 0)?;
        poller.add(&socket, place, flags)?;
        sockets.push(socket);
    }
    let (data, mut buffer) = (pattern(), vec![0; BUFFER]);
    let mut bytes = vec![0u64; streams];
    let mut watch = Stopwatch::new(settings, WARM_UP, LENGTH);
    let (mut moved, mut stall) = (Instant::now(), Duration::ZERO);
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => {
                bytes.fill(0);
                (moved, stall) = (Instant::now(), Duration::ZERO);
            }
            Now::Over => break,
        }
        let before: u64 = bytes.iter().sum();
        for event in 0..poller.wait(Some(TICK))? {
            let (place, flags) = poller.event(event);
            let socket = &sockets[place];
            if flags.contains(EventFlags::OUT) {
                match net::send(socket, &data) {
                    Ok(count) => bytes[place] += count as u64,
                    Err(error) if net::is_early(&error) => {}
                    Err(error) => return Err(error).context("a stream broke"),
                }
            }
            if flags.intersects(EventFlags::OUT.complement()) {
                match net::receive(socket, &mut buffer) {
                    Ok(0) => anyhow::bail!("a stream ended"),
                    Ok(count) => bytes[place] += count as u64,
                    Err(error) if net::is_early(&error) => {}
                    Err(error) => return Err(error).context("a stream broke"),
                }
            }
        }
        stall = stall.max(moved.elapsed());
        if bytes.iter().sum::<u64>() > before {
            moved = Instant::now();
        }
    }
    let spent = watch.stop();
    let total: u64 = bytes.iter().sum();
    ensure!(total > 0, "nothing moved");
    let slowest = bytes.iter().min().copied().unwrap_or(0);
    let figures = Figures::from([
        ("gib", total as f64 / GIB),
        ("gbitPerSecond", total as f64 * 8.0 / 1e9 / spent.seconds),
        // The share of the slowest stream: 1 is even.
        ("slowest", slowest as f64 * streams as f64 / total as f64),
        // The longest time in which nothing moved.
        ("stallUs", stall.as_secs_f64() * 1e6),
    ]);
    Ok((spent, figures))
}
