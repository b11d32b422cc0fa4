//! What every tunnel is put through.

use crate::compare::load::{Direction, Exchange, Load};

/// One way to load a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Everything arrives
    Integrity,
    /// New streams: connect, 64 bytes there and back, close; 100 users
    Streams,
    /// The same beside two tunnels whose backends are dead, one silent and one refusing, and users of them
    StreamsUnderFire,
    /// Bulk to the user, one stream
    #[value(name = "down-1")]
    Down1,
    /// Bulk from the user, one stream
    #[value(name = "up-1")]
    Up1,
    /// Bulk to the user, 16 streams
    #[value(name = "down-16")]
    Down16,
    /// Bulk from the user, 16 streams
    #[value(name = "up-16")]
    Up16,
    /// Bulk to the user, one stream, 50 ms there and back between the ends
    DelayedDown,
    /// Bulk from the user, one stream, 50 ms there and back between the ends
    DelayedUp,
    /// Round trips of 64 bytes on 64 streams
    Pings,
    /// Memory of streams that carried one byte, both ends together
    Idle,
}

impl Workload {
    pub(crate) fn load(self) -> Load {
        match self {
            Self::Integrity => Load::Integrity,
            Self::Streams | Self::StreamsUnderFire => Load::Connections(Exchange::Echo),
            Self::Down1 | Self::DelayedDown => Load::Bulk(1, Direction::Down),
            Self::Up1 | Self::DelayedUp => Load::Bulk(1, Direction::Up),
            Self::Down16 => Load::Bulk(16, Direction::Down),
            Self::Up16 => Load::Bulk(16, Direction::Up),
            Self::Pings => Load::Pings,
            Self::Idle => Load::Memory(1),
        }
    }

    /// Whether the ends are far from each other.
    pub(crate) fn is_delayed(self) -> bool {
        matches!(self, Self::DelayedDown | Self::DelayedUp)
    }
}
