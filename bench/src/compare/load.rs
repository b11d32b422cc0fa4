//! Loads: each is one thread around one epoll, so that what it costs is the same beside every candidate.

mod bulk;
mod connections;
mod idle;
mod integrity;
mod pings;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::accounts::{Accounts, Spent, Window};
use super::question::Question;
use super::running::Running;

pub(crate) use bulk::{Direction, run as bulk};
pub(crate) use connections::Exchange;

/// What a load found, by name.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// What a load cost and found.
pub(crate) type Measured = (Spent, Figures);

/// How often a load that waits looks at the clock.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Until memory has settled.
pub(crate) const SETTLE: Duration = Duration::from_millis(1500);

/// One way to load a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Whether everything arrives.
    Integrity,
    /// Streams that move as much as they can.
    Bulk(usize, Direction),
    /// New connections as fast as they go.
    Connections(Exchange),
    /// The same with many server names, which take memory.
    Names,
    /// 64-byte round trips.
    Pings,
    /// Memory of idle connections that got so many bytes each, and after they closed.
    Memory(u64),
    /// One that the bench brings itself, and what it answers.
    Own(&'static [Question]),
}

/// What a load may need to know.
pub(crate) struct Settings<'a> {
    pub(crate) accounts: &'a Accounts,
    /// Multiplies every length.
    pub(crate) scale: f64,
    /// Connections to hold.
    pub(crate) idle: Option<usize>,
}

impl Load {
    pub(crate) const BULK: &'static [Question] =
        &[Question::GbitPerSecond, Question::CpuPerGib, Question::WholePerGib];

    /// Whether processor time is measured: a busy machine spoils it, and it differs from round to round.
    pub(crate) fn is_timed(self) -> bool {
        !matches!(self, Self::Integrity | Self::Memory(_))
    }

    /// Whether it is worth its time while somebody waits.
    pub(crate) fn is_quick(self) -> bool {
        self.is_timed() && self != Self::Names
    }

    /// What it answers.
    pub(crate) fn questions(self) -> &'static [Question] {
        match self {
            Self::Integrity => &[],
            Self::Bulk(..) => Self::BULK,
            Self::Connections(_) => &[
                Question::PerSecond,
                Question::CpuPer10k,
                Question::UserPer10k,
                Question::WholePer10k,
                Question::P50Millis,
                Question::P99Millis,
                Question::Failed,
                Question::Refused,
                Question::RefusalMillis,
                Question::GaveUp,
            ],
            Self::Names => {
                &[Question::ReadyMillis, Question::MibWithNames, Question::PerSecond, Question::CpuPer10k]
            }
            Self::Pings => {
                &[Question::PerSecond, Question::CpuPerRoundTrip, Question::P50Millis, Question::P99Millis]
            }
            Self::Own(questions) => questions,
            Self::Memory(_) => &[
                Question::BytesPerConnection,
                Question::MibBefore,
                Question::MibHeld,
                Question::MibAfter,
                Question::Kept,
            ],
        }
    }

    pub(crate) fn run(self, running: &Running, settings: &Settings<'_>) -> anyhow::Result<Measured> {
        let target = running.target.as_ref().context("this load goes to a proxy, and there is none")?;
        match self {
            Self::Own(_) => bail!("this load is run by the bench that brings it"),
            Self::Integrity => integrity::check(target).map(|()| Measured::default()),
            Self::Bulk(streams, direction) => bulk::run(target, settings, streams, direction),
            Self::Connections(exchange) => connections::run(target, settings, exchange),
            Self::Names => {
                std::thread::sleep(SETTLE);
                let memory = running.memory();
                let (spent, mut figures) = connections::run(target, settings, Exchange::Reply)?;
                figures.insert("memory", memory);
                Ok((spent, figures))
            }
            Self::Pings => pings::run(target, settings),
            Self::Memory(bytes) => idle::run(running, target, settings.idle, bytes),
        }
    }
}

/// Warms up, then measures.
pub(crate) struct Stopwatch<'a> {
    start: Instant,
    warm_up: Duration,
    length: Duration,
    accounts: &'a Accounts,
    window: Option<Window>,
}

/// What time it is for a load.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Now {
    Going,
    /// The counting begins: forget what was before.
    Begins,
    Over,
}

impl<'a> Stopwatch<'a> {
    pub(crate) fn new(settings: &Settings<'a>, warm_up: Duration, length: Duration) -> Self {
        let length = length.mul_f64(settings.scale);
        Self { start: Instant::now(), warm_up, length, accounts: settings.accounts, window: None }
    }

    pub(crate) fn look(&mut self) -> Now {
        let elapsed = self.start.elapsed();
        if elapsed >= self.warm_up + self.length {
            return Now::Over;
        }
        if self.window.is_none() && elapsed >= self.warm_up {
            self.window = Some(Window::open(self.accounts));
            return Now::Begins;
        }
        Now::Going
    }

    pub(crate) fn stop(self) -> Spent {
        self.window.map(Window::close).unwrap_or_default()
    }
}

/// Adds the quantiles of times in nanoseconds, as microseconds.
pub(crate) fn quantiles(times: &mut [u32], figures: &mut Figures) {
    times.sort_unstable();
    for (name, share) in [("p50Us", 0.5), ("p99Us", 0.99), ("p999Us", 0.999)] {
        let rank = (share * times.len() as f64).ceil() as usize;
        if let Some(time) = times.get(rank.saturating_sub(1)) {
            figures.insert(name, f64::from(*time) / 1e3);
        }
    }
}

/// Nanoseconds since a moment, as many as fit.
pub(crate) fn nanos(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut times: Vec<u32> = (1..=1000).rev().map(|i| i * 1000).collect();
        let mut figures = Figures::new();
        quantiles(&mut times, &mut figures);
        let found: Vec<_> = figures.into_iter().collect();
        assert_eq!(found, [("p50Us", 500.0), ("p999Us", 999.0), ("p99Us", 990.0)]);
    }

    #[test]
    fn a_watch_begins_once_after_the_warm_up() {
        let accounts = Accounts::default();
        let settings = Settings { accounts: &accounts, scale: 0.5, idle: None };
        let mut watch = Stopwatch::new(&settings, Duration::ZERO, Duration::from_hours(1));
        assert_eq!(watch.length, Duration::from_mins(30));
        assert_eq!((watch.look(), watch.look()), (Now::Begins, Now::Going));
        watch.length = Duration::ZERO;
        assert_eq!(watch.look(), Now::Over);
    }
}
