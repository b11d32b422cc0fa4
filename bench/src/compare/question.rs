//! What can be asked of a measurement, and how an answer is shown.

use super::results::Measurement;

/// Something that can be asked of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    GbitPerSecond,
    MbitPerSecond,
    /// The longest time in which nothing moved.
    StallMillis,
    /// Processor seconds of the candidate for a GiB.
    CpuPerGib,
    /// Processor seconds of load, backend and candidate for a GiB.
    WholePerGib,
    /// Connections or round trips.
    PerSecond,
    /// Processor seconds of the candidate for 10,000 connections.
    CpuPer10k,
    /// The part of it outside the kernel.
    UserPer10k,
    WholePer10k,
    /// Processor seconds of the candidate for 100,000 requests, and the part outside of the kernel.
    CpuPer100k,
    UserPer100k,
    /// The part of its core that the load, with its backend, was busy.
    LoadBusy,
    /// The part of connections that went on with a session of before.
    Resumed,
    /// Processor microseconds of the candidate for a round trip.
    CpuPerRoundTrip,
    /// Processor seconds of the candidate for a million questions, and the part outside of the kernel.
    CpuPerMillion,
    UserPerMillion,
    P50Millis,
    P99Millis,
    P50Micros,
    P99Micros,
    Lost,
    Failed,
    /// How often the certificate was replaced, and how many of those clients were shown.
    Swaps,
    SwapsSeen,
    /// How many came after the last one that they were shown.
    SwapsBehind,
    /// Users of dead backends that were told, that gave up, and after which time half of the first were told.
    Refused,
    RefusalMillis,
    GaveUp,
    BytesPerConnection,
    KibPerConnection,
    MibBefore,
    MibHeld,
    MibAfter,
    /// The part of what connections took that is still held after they closed.
    Kept,
    MibWithNames,
    /// The same without what the candidate needs for next to nothing.
    MibBeyond,
    ReadyMillis,
}

const MIB: f64 = 1024.0 * 1024.0;
const PER: f64 = 10_000.0;

impl Question {
    pub(crate) fn ask(self, of: &Measurement) -> Option<f64> {
        let figure = |name: &str| of.figures.get(name).copied();
        let per_10k = |seconds: f64| Some(seconds / figure("connections")? * PER);
        match self {
            Self::GbitPerSecond => figure("gbitPerSecond"),
            Self::MbitPerSecond => Some(figure("gbitPerSecond")? * 1e3),
            Self::StallMillis => Some(figure("stallUs")? / 1e3),
            Self::CpuPerGib => Some(of.spent.proxy() / figure("gib")?),
            Self::WholePerGib => Some(of.spent.whole() / figure("gib")?),
            Self::PerSecond => figure("perSecond"),
            Self::CpuPer10k => per_10k(of.spent.proxy()),
            Self::UserPer10k => per_10k(of.spent.proxy_user),
            Self::WholePer10k => per_10k(of.spent.whole()),
            Self::CpuPer100k => Some(of.spent.proxy() / figure("requests")? * 1e5),
            Self::UserPer100k => Some(of.spent.proxy_user / figure("requests")? * 1e5),
            Self::LoadBusy => figure("loadBusy"),
            Self::Resumed => figure("resumed"),
            Self::CpuPerRoundTrip => Some(of.spent.proxy() / figure("roundTrips")? * 1e6),
            Self::CpuPerMillion => Some(of.spent.proxy() / figure("questions")? * 1e6),
            Self::UserPerMillion => Some(of.spent.proxy_user / figure("questions")? * 1e6),
            Self::P50Micros => figure("p50Us"),
            Self::P99Micros => figure("p99Us"),
            Self::Lost => figure("lost"),
            Self::P50Millis => Some(figure("p50Us")? / 1e3),
            Self::P99Millis => Some(figure("p99Us")? / 1e3),
            Self::Failed => figure("failed"),
            Self::Swaps => figure("swaps"),
            Self::SwapsSeen => figure("swapsSeen"),
            Self::SwapsBehind => Some(figure("swaps")? - figure("lastSwapSeen")?),
            Self::Refused => figure("refused"),
            Self::RefusalMillis => Some(figure("refusalP50Us")? / 1e3),
            Self::GaveUp => figure("gaveUp"),
            Self::BytesPerConnection => figure("perConnection"),
            Self::KibPerConnection => Some(figure("perConnection")? / 1024.0),
            Self::MibBefore => Some(figure("memoryBefore")? / MIB),
            Self::MibHeld => Some(figure("memoryHeld")? / MIB),
            Self::MibAfter => Some(figure("memoryAfter")? / MIB),
            Self::Kept => {
                let before = figure("memoryBefore")?;
                Some((figure("memoryAfter")? - before) / (figure("memoryHeld")? - before))
            }
            Self::MibWithNames => Some(figure("memory")? / MIB),
            Self::MibBeyond => Some((figure("memory")? - figure("memoryBase")?) / MIB),
            Self::ReadyMillis => Some(of.ready_millis),
        }
    }

    /// The heading of its column, and the digits behind the point.
    pub(crate) fn heading(self) -> (&'static str, usize) {
        match self {
            Self::GbitPerSecond => ("Gbit/s", 2),
            Self::MbitPerSecond => ("Mbit/s", 0),
            Self::StallMillis => ("longest stall, ms", 0),
            Self::CpuPerGib => ("its CPU s per GiB", 3),
            Self::WholePerGib => ("whole run's CPU s per GiB", 3),
            Self::PerSecond => ("per second", 0),
            Self::CpuPer10k => ("its CPU s per 10,000", 3),
            Self::UserPer10k => ("of it user", 3),
            Self::WholePer10k => ("whole run's CPU s per 10,000", 2),
            Self::CpuPer100k => ("its CPU s per 100,000", 2),
            Self::LoadBusy => ("load's core busy", 2),
            Self::Resumed => ("part resumed", 2),
            Self::CpuPerRoundTrip => ("its CPU µs each", 1),
            Self::CpuPerMillion => ("its CPU s per million", 2),
            Self::UserPer100k | Self::UserPerMillion => ("of it user", 2),
            Self::P50Micros => ("p50 µs", 0),
            Self::P99Micros => ("p99 µs", 0),
            Self::Lost => ("lost", 0),
            Self::P50Millis => ("p50 ms", 2),
            Self::P99Millis => ("p99 ms", 2),
            Self::Failed => ("failed", 0),
            Self::Swaps => ("certificates replaced", 0),
            Self::SwapsSeen => ("of them shown", 0),
            Self::SwapsBehind => ("after the last shown", 0),
            Self::Refused => ("users of dead backends told", 0),
            Self::RefusalMillis => ("told after ms", 1),
            Self::GaveUp => ("gave up", 0),
            Self::BytesPerConnection => ("bytes per connection", 0),
            Self::KibPerConnection => ("KiB per connection", 1),
            Self::MibBefore => ("MiB before", 1),
            Self::MibHeld => ("MiB held", 1),
            Self::MibAfter => ("MiB after close", 1),
            Self::Kept => ("part kept after close", 2),
            Self::MibWithNames => ("MiB", 1),
            Self::MibBeyond => ("MiB beyond the process", 1),
            Self::ReadyMillis => ("start to serving, ms", 0),
        }
    }

    /// Whether one candidate's answer divided by another's says anything.
    pub(crate) fn has_ratio(self) -> bool {
        !matches!(
            self,
            Self::LoadBusy
                | Self::Resumed
                | Self::Lost
                | Self::Failed
                | Self::Swaps
                | Self::SwapsSeen
                | Self::SwapsBehind
                | Self::Refused
                | Self::RefusalMillis
                | Self::GaveUp
                | Self::Kept
        )
    }
}
