//! Kea's own load: the highest rate at which a server answers all but one in a hundred.

use std::path::Path;
use std::process::Stdio;

use anyhow::Context;

use super::candidate::Running;
use super::network::{Network, RELAY, SERVER, inside};

const FIRST: f64 = 6000.0;
const STEP: f64 = 1.25;
/// Of each rate, in seconds.
const TIME: &str = "2";
const LOSS: f64 = 0.01;
/// New clients are drawn from so many.
const MANY: u32 = 4_000_000;
const PROCESSOR: usize = 1;

/// What perfdhcp says of one rate.
#[derive(Debug, PartialEq)]
struct Said {
    rate: f64,
    asked: f64,
    acked: f64,
}

/// Raises the rate until more is lost, or perfdhcp itself can't go faster; `known` clients ask again and again.
pub(super) fn highest_rate(
    perfdhcp: &Path,
    network: &Network,
    known: Option<u32>,
    start: impl Fn() -> anyhow::Result<Running>,
) -> anyhow::Result<f64> {
    let clients = known.unwrap_or(MANY).to_string();
    let (mut best, mut rate) = (0.0, FIRST);
    let running = start()?;
    loop {
        let output = inside(&network.load, PROCESSOR)
            .arg(perfdhcp)
            .args(["-4", "-l", &RELAY.to_string(), "-r", &format!("{rate:.0}"), "-R", &clients, "-p", TIME])
            .arg(SERVER.to_string())
            .stdin(Stdio::null())
            .output()
            .context("can't start perfdhcp (package kea-admin)")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = parse(&said)
            .with_context(|| format!("perfdhcp said: {said}{}", String::from_utf8_lossy(&output.stderr)))?;
        let lost = 1.0 - found.acked / found.asked.max(1.0);
        if lost > LOSS || found.rate < best {
            drop(running);
            return Ok(best);
        }
        (best, rate) = (found.rate, rate * STEP);
    }
}

fn parse(said: &str) -> Option<Said> {
    let number = |text: &str| text.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    let rate = said.lines().find(|line| line.starts_with("Rate:")).and_then(number)?;
    let part = |name: &str, field: &str| {
        let (_, part) = said.split_once(name)?;
        part.lines().find(|line| line.starts_with(field)).and_then(number)
    };
    Some(Said {
        rate,
        asked: part("DISCOVER-OFFER", "sent packets")?,
        acked: part("REQUEST-ACK", "received packets")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_perfdhcp_says() {
        let said = "***Rate statistics***\nRate: 199.5 4-way exchanges/second, expected rate: 200\n\n\
             ***Statistics for: DISCOVER-OFFER***\nsent packets: 600\nreceived packets: 599\n\
             ***Statistics for: REQUEST-ACK***\nsent packets: 599\nreceived packets: 598\n";
        assert_eq!(parse(said), Some(Said { rate: 199.5, asked: 600.0, acked: 598.0 }));
        assert_eq!(parse("nothing"), None);
    }
}
