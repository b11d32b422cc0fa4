//! What every proxy is put through.

use crate::compare::load::{Direction, Exchange, Load};

/// What a used connection has carried.
const USED: u64 = 256 << 10;

/// One way to load a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Everything arrives, by name
    IntegritySni,
    /// Everything arrives, on the plain listener
    IntegrityPlain,
    /// Bulk to the client, one stream
    #[value(name = "down-1")]
    Down1,
    /// Bulk from the client, one stream
    #[value(name = "up-1")]
    Up1,
    /// Bulk to the client, 16 streams
    #[value(name = "down-16")]
    Down16,
    /// Bulk from the client, 16 streams
    #[value(name = "up-16")]
    Up16,
    /// Bulk both ways on 16 streams
    #[value(name = "both-16")]
    Both16,
    /// New connections by name, 64 at a time
    Connections,
    /// New connections on the plain listener, 64 at a time
    ConnectionsPlain,
    /// Round trips of 64 bytes on 64 connections
    Pings,
    /// Memory of connections that carried one byte
    Idle,
    /// Memory of connections that carried 256 KiB each
    IdleUsed,
    /// New connections over 1,000 names
    #[value(name = "names-1000")]
    Names1000,
    /// New connections over 5,000 names
    #[value(name = "names-5000")]
    Names5000,
    /// New connections over 100,000 names
    #[value(name = "names-100000")]
    Names100000,
}

impl Workload {
    pub(crate) const BULK: [Self; 5] = [Self::Down1, Self::Up1, Self::Down16, Self::Up16, Self::Both16];

    pub(crate) fn load(self) -> Load {
        match self {
            Self::IntegritySni | Self::IntegrityPlain => Load::Integrity,
            Self::Down1 => Load::Bulk(1, Direction::Down),
            Self::Up1 => Load::Bulk(1, Direction::Up),
            Self::Down16 => Load::Bulk(16, Direction::Down),
            Self::Up16 => Load::Bulk(16, Direction::Up),
            Self::Both16 => Load::Bulk(16, Direction::Both),
            Self::Connections | Self::ConnectionsPlain => Load::Connections(Exchange::Reply),
            Self::Pings => Load::Pings,
            Self::Idle => Load::Memory(1),
            Self::IdleUsed => Load::Memory(USED),
            Self::Names1000 | Self::Names5000 | Self::Names100000 => Load::Names,
        }
    }

    /// Whether each connection begins with a ClientHello.
    pub(crate) fn is_by_name(self) -> bool {
        !matches!(self, Self::IntegrityPlain | Self::ConnectionsPlain)
    }

    /// Names beside one for each backend.
    pub(crate) fn names(self) -> usize {
        match self {
            Self::Names1000 => 1000,
            Self::Names5000 => 5000,
            Self::Names100000 => 100_000,
            _ => 0,
        }
    }
}
