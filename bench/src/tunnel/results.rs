//! Everything that was measured, and the questions that are asked of it: medians, and ratios between two candidates
//! of the same round.

use std::collections::BTreeMap;

use super::candidate::Candidate;
use super::workload::Workload;
use crate::l4::results::Measurement;
use crate::samples::Samples;

/// Something that can be asked of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    PerSecond,
    GbitPerSecond,
    /// Processor seconds of both ends for a GiB.
    CpuPerGib,
    /// Processor seconds of both ends for 10,000 streams.
    CpuPer10k,
    /// The part of it outside the kernel.
    UserPer10k,
    /// Processor microseconds of both ends for a round trip.
    CpuPerRoundTrip,
    P50Millis,
    P99Millis,
    Failed,
    /// Users of dead tunnels that were told, that gave up, and after which time half of the first were told.
    Refused,
    GaveUp,
    RefusalMillis,
    KibPerStream,
    MibBefore,
    MibHeld,
    MibAfter,
    ReadyMillis,
}

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const PER: f64 = 10_000.0;

impl Question {
    fn ask(self, of: &Measurement) -> Option<f64> {
        let figure = |name: &str| of.figures.get(name).copied();
        let per_10k = |seconds: f64| Some(seconds / figure("streams")? * PER);
        match self {
            Self::PerSecond => figure("perSecond"),
            Self::GbitPerSecond => figure("gbitPerSecond"),
            Self::CpuPerGib => Some(of.spent.proxy() / figure("gib")?),
            Self::CpuPer10k => per_10k(of.spent.proxy()),
            Self::UserPer10k => per_10k(of.spent.proxy_user),
            Self::CpuPerRoundTrip => Some(of.spent.proxy() / figure("roundTrips")? * 1e6),
            Self::P50Millis => Some(figure("p50Us")? / 1e3),
            Self::P99Millis => Some(figure("p99Us")? / 1e3),
            Self::Failed => figure("failed"),
            Self::Refused => figure("refused"),
            Self::GaveUp => figure("gaveUp"),
            Self::RefusalMillis => Some(figure("refusalP50Us")? / 1e3),
            Self::KibPerStream => Some(figure("perStream")? / KIB),
            Self::MibBefore => Some(figure("memoryBefore")? / MIB),
            Self::MibHeld => Some(figure("memoryHeld")? / MIB),
            Self::MibAfter => Some(figure("memoryAfter")? / MIB),
            Self::ReadyMillis => Some(of.ready_millis),
        }
    }
}

/// A load put on a candidate.
pub type Place = (Workload, Candidate);

/// All measurements of a run.
#[derive(Debug, Default)]
pub struct Results(Vec<Measurement>);

impl Results {
    pub fn push(&mut self, measurement: Measurement) {
        self.0.push(measurement);
    }

    /// Reads measurements back, one JSON object a line.
    pub fn read(text: &str) -> serde_json::Result<Self> {
        text.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>().map(Self)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Measurement> {
        self.0.iter()
    }

    pub fn of(&self, (workload, candidate): Place) -> impl Iterator<Item = &Measurement> {
        self.0.iter().filter(move |m| m.workload == workload.name() && m.candidate == candidate.name())
    }

    fn good(&self, of: Place, question: Question) -> impl Iterator<Item = (usize, f64)> {
        let good = self.of(of).filter(|m| m.error.is_none());
        good.filter_map(move |m| Some((m.round, question.ask(m)?)))
    }

    /// All answers of a candidate that did not fail.
    pub fn answers(&self, of: Place, question: Question) -> Samples {
        self.good(of, question).map(|(_, answer)| answer).collect()
    }

    pub fn median(&self, of: Place, question: Question) -> Option<f64> {
        let answers = self.answers(of, question);
        (answers.len() > 0).then(|| answers.middle())
    }

    /// The median over the rounds of one answer divided by another of the same round.
    pub fn ratio(&self, of: Place, to: Place, question: Question) -> Option<f64> {
        let others: BTreeMap<usize, f64> = self.good(to, question).collect();
        let ratios: Samples = self
            .good(of, question)
            .filter_map(|(round, ours)| Some(ours / others.get(&round)?))
            .filter(|ratio| ratio.is_finite())
            .collect();
        (ratios.len() > 0).then(|| ratios.middle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::l4::accounts::Spent;

    fn measured(candidate: Candidate, round: usize, cpu: f64) -> Measurement {
        Measurement {
            workload: Workload::Streams.name().into(),
            candidate: candidate.name().into(),
            round,
            attempts: 1,
            ready_millis: 5.0,
            spent: Spent { seconds: 1.0, proxy_user: cpu, ..Spent::default() },
            figures: BTreeMap::from([("streams".into(), 10_000.0)]),
            error: None,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_survive_the_file() {
        let mut lines = Vec::new();
        // The machine becomes slower from round to round; the ratio does not.
        for (round, slow) in [1.0, 3.0, 9.0].into_iter().enumerate() {
            lines.push(serde_json::to_string(&measured(Candidate::Causeway, round, slow)).unwrap());
            lines.push(serde_json::to_string(&measured(Candidate::RatholeTls, round, 2.0 * slow)).unwrap());
        }
        let results = Results::read(&lines.join("\n")).unwrap();
        let of = |candidate| (Workload::Streams, candidate);
        let ratio = results.ratio(of(Candidate::Causeway), of(Candidate::RatholeTls), Question::CpuPer10k);
        assert_eq!(ratio, Some(0.5));
        let none = results.ratio(of(Candidate::Causeway), of(Candidate::RatholePlain), Question::CpuPer10k);
        assert_eq!(none, None);
    }
}
