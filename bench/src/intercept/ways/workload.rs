//! What every way is put through.

use crate::compare::load::{Direction, Load};
use crate::compare::question::Question;

/// One way to load a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Bulk into the cluster, one stream
    #[value(name = "up-1")]
    Up1,
    /// Bulk out of the cluster, one stream
    #[value(name = "down-1")]
    Down1,
    /// Bulk into the cluster, 16 streams
    #[value(name = "up-16")]
    Up16,
    /// Bulk out of the cluster, 16 streams
    #[value(name = "down-16")]
    Down16,
    /// Bulk into the cluster, one stream, over 20 ms with one packet in a thousand lost each way
    BadUp,
    /// Bulk out of the cluster, the same way
    BadDown,
}

impl Workload {
    pub(crate) fn load(self) -> Load {
        const BAD: &[Question] = &[Question::MbitPerSecond, Question::StallMillis];
        let (streams, direction) = self.streams();
        if self.is_bad() { Load::Own(BAD) } else { Load::Bulk(streams, direction) }
    }

    pub(crate) fn streams(self) -> (usize, Direction) {
        match self {
            Self::Up1 | Self::BadUp => (1, Direction::Up),
            Self::Down1 | Self::BadDown => (1, Direction::Down),
            Self::Up16 => (16, Direction::Up),
            Self::Down16 => (16, Direction::Down),
        }
    }

    /// Whether the way is long and bad.
    pub(crate) fn is_bad(self) -> bool {
        matches!(self, Self::BadUp | Self::BadDown)
    }

    /// How much longer than others it is measured: losses are few.
    pub(crate) fn length(self) -> f64 {
        if self.is_bad() { 3.0 } else { 1.0 }
    }
}
