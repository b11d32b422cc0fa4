//! What every candidate is put through.

use std::time::Duration;

use super::accounts::{Accounts, Spent};
use super::load::bulk::{self, Direction};
use super::load::{Figures, connections, idle, integrity, pings};
use super::proxy::Proxy;

const BULK: f64 = 4.0;
const CONNECTIONS: f64 = 8.0;
const PINGS: f64 = 4.0;
/// Until memory has settled.
const SETTLE: Duration = Duration::from_millis(1500);
/// Until memory of closed connections was given back, by those who do it in their own time.
const GIVEN_BACK: Duration = Duration::from_secs(15);
/// What a used connection has carried.
const USED: u64 = 256 << 10;

/// One way to load a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Workload {
    /// Everything arrives, by name.
    IntegritySni,
    /// Everything arrives, on the plain listener.
    IntegrityPlain,
    /// Bulk to the client, one stream.
    #[value(name = "down-1")]
    Down1,
    /// Bulk from the client, one stream.
    #[value(name = "up-1")]
    Up1,
    /// Bulk to the client, 16 streams.
    #[value(name = "down-16")]
    Down16,
    /// Bulk from the client, 16 streams.
    #[value(name = "up-16")]
    Up16,
    /// Bulk both ways on 16 streams.
    #[value(name = "both-16")]
    Both16,
    /// New connections by name.
    Connections,
    /// New connections on the plain listener.
    ConnectionsPlain,
    /// 64-byte round trips.
    Pings,
    /// Memory of connections that carried one byte.
    Idle,
    /// Memory of connections that were busy.
    IdleUsed,
    /// 1,000 names.
    #[value(name = "names-1000")]
    Names1000,
    /// 5,000 names.
    #[value(name = "names-5000")]
    Names5000,
    /// 100,000 names.
    #[value(name = "names-100000")]
    Names100000,
}

/// What a load may need to know.
pub struct Settings<'a> {
    pub accounts: &'a Accounts,
    /// Multiplies every length.
    pub scale: f64,
    pub idle_connections: usize,
}

impl Workload {
    pub const ALL: [Self; 15] = [
        Self::IntegritySni,
        Self::IntegrityPlain,
        Self::Down1,
        Self::Up1,
        Self::Down16,
        Self::Up16,
        Self::Both16,
        Self::Connections,
        Self::ConnectionsPlain,
        Self::Pings,
        Self::Idle,
        Self::IdleUsed,
        Self::Names1000,
        Self::Names5000,
        Self::Names100000,
    ];

    pub const BULK: [Self; 5] = [Self::Down1, Self::Up1, Self::Down16, Self::Up16, Self::Both16];

    pub fn name(self) -> &'static str {
        match self {
            Self::IntegritySni => "integrity-sni",
            Self::IntegrityPlain => "integrity-plain",
            Self::Down1 => "down-1",
            Self::Up1 => "up-1",
            Self::Down16 => "down-16",
            Self::Up16 => "up-16",
            Self::Both16 => "both-16",
            Self::Connections => "connections",
            Self::ConnectionsPlain => "connections-plain",
            Self::Pings => "pings",
            Self::Idle => "idle",
            Self::IdleUsed => "idle-used",
            Self::Names1000 => "names-1000",
            Self::Names5000 => "names-5000",
            Self::Names100000 => "names-100000",
        }
    }

    /// Names beside one for each backend.
    pub fn names(self) -> usize {
        match self {
            Self::Names1000 => 1000,
            Self::Names5000 => 5000,
            Self::Names100000 => 100_000,
            _ => 0,
        }
    }

    /// Whether processor time is measured, so that a busy machine spoils it.
    pub fn is_timed(self) -> bool {
        !matches!(self, Self::IntegritySni | Self::IntegrityPlain | Self::Idle | Self::IdleUsed)
    }

    /// Whether the same comes out every time, so that one round is enough.
    pub fn is_steady(self) -> bool {
        !self.is_timed()
    }

    pub fn run(self, proxy: &Proxy, settings: &Settings<'_>) -> anyhow::Result<(Spent, Figures)> {
        let by_name = !matches!(self, Self::IntegrityPlain | Self::ConnectionsPlain);
        let target = proxy.target(by_name);
        let accounts = settings.accounts;
        let length = |seconds: f64| Duration::from_secs_f64(seconds * settings.scale);
        let bulk = |streams, direction| bulk::run(&target, accounts, streams, direction, length(BULK));
        match self {
            Self::IntegritySni | Self::IntegrityPlain => {
                integrity::check(&target)?;
                Ok((Spent::default(), Figures::new()))
            }
            Self::Down1 => bulk(1, Direction::Down),
            Self::Up1 => bulk(1, Direction::Up),
            Self::Down16 => bulk(16, Direction::Down),
            Self::Up16 => bulk(16, Direction::Up),
            Self::Both16 => bulk(16, Direction::Both),
            Self::Connections | Self::ConnectionsPlain => {
                connections::run(&target, accounts, length(CONNECTIONS))
            }
            Self::Pings => pings::run(&target, accounts, length(PINGS)),
            Self::Idle => memory(proxy, settings, 1),
            Self::IdleUsed => memory(proxy, settings, USED),
            Self::Names1000 | Self::Names5000 | Self::Names100000 => {
                std::thread::sleep(SETTLE);
                let memory = proxy.memory();
                let (spent, mut figures) = connections::run(&target, accounts, length(CONNECTIONS))?;
                figures.insert("memory", memory);
                Ok((spent, figures))
            }
        }
    }
}

fn memory(proxy: &Proxy, settings: &Settings<'_>, bytes: u64) -> anyhow::Result<(Spent, Figures)> {
    let target = proxy.target(true);
    std::thread::sleep(SETTLE);
    let before = proxy.memory();
    let (sockets, stopped_by) = idle::open(&target, settings.idle_connections, bytes);
    if let Some(error) = stopped_by {
        return Err(error.context(format!("only {} connections could be had", sockets.len())));
    }
    std::thread::sleep(SETTLE);
    let held = proxy.memory();
    let count = sockets.len() as f64;
    drop(sockets);
    std::thread::sleep(GIVEN_BACK);
    let after = proxy.memory();
    let figures = Figures::from([
        ("connections", count),
        ("memoryBefore", before),
        ("memoryHeld", held),
        ("memoryAfter", after),
        ("perConnection", (held - before) / count),
    ]);
    Ok((Spent::default(), figures))
}
