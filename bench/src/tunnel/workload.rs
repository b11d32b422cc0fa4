//! What every tunnel is put through.

use std::time::Duration;

use super::candidate::Candidate;
use super::configuration::dead_users;
use super::fire::Fire;
use super::pair::Pair;
use super::streams;
use crate::l4::accounts::{Accounts, Spent};
use crate::l4::load::bulk::{self, Direction};
use crate::l4::load::{Figures, idle, integrity, pings};

const BULK: f64 = 4.0;
const STREAMS: f64 = 6.0;
const PINGS: f64 = 4.0;
/// Until memory has settled.
const SETTLE: Duration = Duration::from_millis(1500);
/// Until memory of closed streams was given back, by those who do it in their own time.
const GIVEN_BACK: Duration = Duration::from_secs(15);

/// One way to load a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Workload {
    /// Everything arrives.
    Integrity,
    /// New streams: connect, 64 bytes there and back, close; 100 users.
    Streams,
    /// The same with two tunnels beside it whose backends are dead, one silent and one refusing, and users of them.
    StreamsUnderFire,
    /// Bulk to the user, one stream.
    #[value(name = "down-1")]
    Down1,
    /// Bulk from the user, one stream.
    #[value(name = "up-1")]
    Up1,
    /// Bulk to the user, 16 streams.
    #[value(name = "down-16")]
    Down16,
    /// Bulk from the user, 16 streams.
    #[value(name = "up-16")]
    Up16,
    /// 64-byte round trips on 64 streams.
    Pings,
    /// Memory of streams that carried one byte.
    Idle,
}

/// What a load may need to know.
pub struct Settings<'a> {
    pub accounts: &'a Accounts,
    /// Multiplies every length.
    pub scale: f64,
    pub idle_streams: usize,
}

impl Workload {
    pub const ALL: [Self; 9] = [
        Self::Integrity,
        Self::Streams,
        Self::StreamsUnderFire,
        Self::Down1,
        Self::Up1,
        Self::Down16,
        Self::Up16,
        Self::Pings,
        Self::Idle,
    ];

    pub const BULK: [Self; 4] = [Self::Down1, Self::Up1, Self::Down16, Self::Up16];

    pub fn name(self) -> &'static str {
        match self {
            Self::Integrity => "integrity",
            Self::Streams => "streams",
            Self::StreamsUnderFire => "streams-under-fire",
            Self::Down1 => "down-1",
            Self::Up1 => "up-1",
            Self::Down16 => "down-16",
            Self::Up16 => "up-16",
            Self::Pings => "pings",
            Self::Idle => "idle",
        }
    }

    /// Whether processor time is measured, so that a busy machine spoils it.
    pub fn is_timed(self) -> bool {
        !self.is_steady()
    }

    /// Whether the same comes out every time, so that one round is enough.
    pub fn is_steady(self) -> bool {
        matches!(self, Self::Integrity | Self::Idle)
    }

    /// Whether it says anything of a candidate.
    pub fn takes(self, candidate: Candidate) -> bool {
        candidate.is_tunnel() || !matches!(self, Self::StreamsUnderFire | Self::Idle)
    }

    pub fn run(self, pair: &Pair, settings: &Settings<'_>) -> anyhow::Result<(Spent, Figures)> {
        let target = pair.target();
        let accounts = settings.accounts;
        let length = |seconds: f64| Duration::from_secs_f64(seconds * settings.scale);
        let bulk = |streams, direction| bulk::run(&target, accounts, streams, direction, length(BULK));
        match self {
            Self::Integrity => {
                integrity::check(&target)?;
                Ok((Spent::default(), Figures::new()))
            }
            Self::Streams => streams::run(&target, accounts, length(STREAMS)),
            Self::StreamsUnderFire => {
                let fire = Fire::open(vec![dead_users(0), dead_users(1)]);
                let measured = streams::run(&target, accounts, length(STREAMS));
                let fared = fire.cease()?;
                let (spent, mut figures) = measured?;
                figures.extend(fared);
                Ok((spent, figures))
            }
            Self::Down1 => bulk(1, Direction::Down),
            Self::Up1 => bulk(1, Direction::Up),
            Self::Down16 => bulk(16, Direction::Down),
            Self::Up16 => bulk(16, Direction::Up),
            Self::Pings => pings::run(&target, accounts, length(PINGS)),
            Self::Idle => memory(pair, settings.idle_streams),
        }
    }
}

fn memory(pair: &Pair, wanted: usize) -> anyhow::Result<(Spent, Figures)> {
    std::thread::sleep(SETTLE);
    let before = pair.memory();
    let (sockets, stopped_by) = idle::open(&pair.target(), wanted, 1);
    if let Some(error) = stopped_by {
        return Err(error.context(format!("only {} streams could be had", sockets.len())));
    }
    std::thread::sleep(SETTLE);
    let held = pair.memory();
    let count = sockets.len() as f64;
    drop(sockets);
    std::thread::sleep(GIVEN_BACK);
    let figures = Figures::from([
        ("streams", count),
        ("memoryBefore", before),
        ("memoryHeld", held),
        ("memoryAfter", pair.memory()),
        ("perStream", (held - before) / count),
    ]);
    Ok((Spent::default(), figures))
}
