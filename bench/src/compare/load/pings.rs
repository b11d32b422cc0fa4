//! 64 bytes there and back on each of 64 connections, the next as soon as the last is back.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::{Figures, Measured, Now, Settings, Stopwatch, TICK, nanos, quantiles};
use crate::compare::net::{self, EventFlags, Poller};
use crate::compare::target::{Order, Target};

const CONNECTIONS: usize = 64;
const MESSAGE: [u8; 64] = [0x55; 64];
const WARM_UP: Duration = Duration::from_millis(700);
const LENGTH: Duration = Duration::from_secs(4);

pub(crate) fn run(target: &Target, settings: &Settings<'_>) -> anyhow::Result<Measured> {
    let mut poller = Poller::new()?;
    let mut connections = Vec::new();
    for place in 0..CONNECTIONS {
        let socket = target.open(place, Order::Echo, 0)?;
        poller.add(&socket, place, EventFlags::IN)?;
        net::send(&socket, &MESSAGE).context("the first message was not sent")?;
        connections.push((socket, 0, Instant::now()));
    }
    let mut times = Vec::with_capacity(1 << 20);
    let mut buffer = [0; 4096];
    let mut watch = Stopwatch::new(settings, WARM_UP, LENGTH);
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => times.clear(),
            Now::Over => break,
        }
        for event in 0..poller.wait(Some(TICK))? {
            let (place, _) = poller.event(event);
            let (socket, got, sent_at) = &mut connections[place];
            match net::receive(socket, &mut buffer) {
                Ok(0) => bail!("a connection ended"),
                Ok(count) => *got += count,
                Err(error) if net::is_early(&error) => continue,
                Err(error) => return Err(error).context("a connection broke"),
            }
            if *got >= MESSAGE.len() {
                times.push(nanos(*sent_at));
                (*got, *sent_at) = (0, Instant::now());
                net::send(socket, &MESSAGE).context("a message was not sent")?;
            }
        }
    }
    let spent = watch.stop();
    let mut figures = Figures::from([
        ("roundTrips", times.len() as f64),
        ("perSecond", times.len() as f64 / spent.seconds),
    ]);
    quantiles(&mut times, &mut figures);
    Ok((spent, figures))
}
