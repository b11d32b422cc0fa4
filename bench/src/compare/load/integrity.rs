//! Whether everything arrives: 64 MiB are echoed and compared, and the client says that it has ended while most of
//! them are still on their way back.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::event::PollFlags;

use crate::compare::net;
use crate::compare::target::{Order, Target};

const TOTAL: u64 = 64 << 20;
const CHUNK: usize = 64 << 10;
const LIMIT: Duration = Duration::from_mins(1);

pub(crate) fn check(target: &Target) -> anyhow::Result<()> {
    let socket = target.open(0, Order::Echo, 0)?;
    let (mut made, mut got, mut sent) = (0, 0, 0);
    let (mut out, mut expected, mut buffer) = (Vec::new(), Vec::new(), vec![0; CHUNK]);
    let mut finished = false;
    let started = Instant::now();
    loop {
        ensure!(started.elapsed() < LIMIT, "{got} of {TOTAL} bytes after {} s", LIMIT.as_secs());
        if sent == out.len() && made < TOTAL {
            fill(made, CHUNK, &mut out);
            (made, sent) = (made + CHUNK as u64, 0);
        }
        if sent == out.len() && !finished {
            net::finish(&socket).context("can't half-close")?;
            finished = true;
        }
        let wanted = if sent < out.len() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let happened = net::wait(&socket, wanted, Duration::from_secs(1))?;
        if happened.contains(PollFlags::OUT) {
            match net::send(&socket, &out[sent..]) {
                Ok(count) => sent += count,
                Err(error) if net::is_early(&error) => {}
                Err(error) => return Err(error).context("sending failed"),
            }
        }
        if happened.intersects(PollFlags::OUT.complement()) {
            match net::receive(&socket, &mut buffer) {
                Ok(0) if got == TOTAL => return Ok(()),
                Ok(0) => bail!("the end came after {got} of {TOTAL} bytes"),
                Ok(count) => {
                    fill(got, count, &mut expected);
                    ensure!(buffer[..count] == expected[..], "other bytes came back near {got}");
                    got += count as u64;
                }
                Err(error) if net::is_early(&error) => {}
                Err(error) => return Err(error).with_context(|| format!("broken at {got} of {TOTAL} bytes")),
            }
        }
    }
}

/// The bytes of the stream from a place on.
fn fill(from: u64, count: usize, out: &mut Vec<u8>) {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    out.clear();
    out.extend((from..from + count as u64).map(|i| (i.wrapping_mul(MIX) >> 47) as u8 ^ (i >> 16) as u8));
}
