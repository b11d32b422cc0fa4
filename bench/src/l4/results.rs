//! Everything that was measured, and the questions that are asked of it: medians, and ratios between two candidates
//! of the same round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::accounts::Spent;
use super::candidate::Candidate;
use super::workload::Workload;
use crate::samples::Samples;

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    pub workload: String,
    pub candidate: String,
    pub round: usize,
    /// Of how many attempts it is the quietest.
    pub attempts: usize,
    /// From the start of the candidate until it served.
    pub ready_millis: f64,
    pub spent: Spent,
    pub figures: BTreeMap<String, f64>,
    pub error: Option<String>,
}

impl Measurement {
    fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }
}

/// Something that can be asked of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    GbitPerSecond,
    /// Processor seconds of the proxy for a GiB.
    ProxyPerGib,
    /// Processor seconds of load, backend and proxy for a GiB.
    WholePerGib,
    ConnectionsPerSecond,
    /// Processor seconds of the proxy for 10,000 connections.
    ProxyPer10k,
    /// The part of it outside the kernel.
    UserPer10k,
    WholePer10k,
    RoundTripsPerSecond,
    /// Processor microseconds of the proxy for a round trip.
    ProxyPerRoundTrip,
    P50Millis,
    P99Millis,
    Failed,
    BytesPerConnection,
    MibBefore,
    MibHeld,
    MibAfter,
    /// The part of what connections took that is still held after they closed.
    Kept,
    MibWithNames,
    ReadyMillis,
}

const MIB: f64 = 1024.0 * 1024.0;
const PER: f64 = 10_000.0;

impl Question {
    fn ask(self, of: &Measurement) -> Option<f64> {
        let figure = |name| of.figure(name);
        let per_10k = |seconds: f64| Some(seconds / figure("connections")? * PER);
        match self {
            Self::GbitPerSecond => figure("gbitPerSecond"),
            Self::ProxyPerGib => Some(of.spent.proxy() / figure("gib")?),
            Self::WholePerGib => Some(of.spent.whole() / figure("gib")?),
            Self::ConnectionsPerSecond | Self::RoundTripsPerSecond => figure("perSecond"),
            Self::ProxyPer10k => per_10k(of.spent.proxy()),
            Self::UserPer10k => per_10k(of.spent.proxy_user),
            Self::WholePer10k => per_10k(of.spent.whole()),
            Self::ProxyPerRoundTrip => Some(of.spent.proxy() / figure("roundTrips")? * 1e6),
            Self::P50Millis => Some(figure("p50Us")? / 1e3),
            Self::P99Millis => Some(figure("p99Us")? / 1e3),
            Self::Failed => figure("failed"),
            Self::BytesPerConnection => figure("perConnection"),
            Self::MibBefore => Some(figure("memoryBefore")? / MIB),
            Self::MibHeld => Some(figure("memoryHeld")? / MIB),
            Self::MibAfter => Some(figure("memoryAfter")? / MIB),
            Self::Kept => {
                let before = figure("memoryBefore")?;
                Some((figure("memoryAfter")? - before) / (figure("memoryHeld")? - before))
            }
            Self::MibWithNames => Some(figure("memory")? / MIB),
            Self::ReadyMillis => Some(of.ready_millis),
        }
    }
}

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

    pub fn of(&self, workload: Workload, candidate: Candidate) -> impl Iterator<Item = &Measurement> {
        self.0.iter().filter(move |m| m.workload == workload.name() && m.candidate == candidate.name())
    }

    /// All answers of a candidate that did not fail.
    pub fn answers(&self, workload: Workload, candidate: Candidate, question: Question) -> Samples {
        let good = self.of(workload, candidate).filter(|m| m.error.is_none());
        good.filter_map(|m| question.ask(m)).collect()
    }

    pub fn median(&self, workload: Workload, candidate: Candidate, question: Question) -> Option<f64> {
        let answers = self.answers(workload, candidate, question);
        (answers.len() > 0).then(|| answers.middle())
    }

    /// The median over the rounds of one candidate's answer divided by another's of the same round.
    pub fn ratio(
        &self,
        (workload, candidate): (Workload, Candidate),
        (other_workload, other): (Workload, Candidate),
        question: Question,
    ) -> Option<f64> {
        let good = |workload, candidate| {
            self.of(workload, candidate)
                .filter(|m| m.error.is_none())
                .filter_map(move |m| Some((m.round, question.ask(m)?)))
        };
        let others: BTreeMap<usize, f64> = good(other_workload, other).collect();
        let ratios: Samples = good(workload, candidate)
            .filter_map(|(round, ours)| Some(ours / others.get(&round)?))
            .filter(|ratio| ratio.is_finite())
            .collect();
        (ratios.len() > 0).then(|| ratios.middle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(candidate: Candidate, round: usize, proxy: f64) -> Measurement {
        Measurement {
            workload: Workload::Connections.name().into(),
            candidate: candidate.name().into(),
            round,
            attempts: 1,
            ready_millis: 5.0,
            spent: Spent { seconds: 1.0, proxy_user: proxy, load: 1.0, ..Spent::default() },
            figures: BTreeMap::from([("connections".into(), 10_000.0)]),
            error: None,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut results = Results::default();
        // The machine becomes slower from round to round; the ratio does not.
        for (round, slow) in [1.0, 3.0, 9.0].into_iter().enumerate() {
            results.push(measured(Candidate::Causeway, round, slow));
            results.push(measured(Candidate::Nginx, round, 2.0 * slow));
        }
        let of = |candidate| (Workload::Connections, candidate);
        let ratio = results.ratio(of(Candidate::Causeway), of(Candidate::Nginx), Question::ProxyPer10k);
        assert_eq!(ratio, Some(0.5));
        assert_eq!(results.ratio(of(Candidate::Causeway), of(Candidate::Envoy), Question::ProxyPer10k), None);
    }

    #[test]
    fn measurements_are_read_as_they_were_written() {
        let line = serde_json::to_string(&measured(Candidate::Envoy, 2, 0.5)).unwrap();
        let results = Results::read(&line).unwrap();
        let of = (Workload::Connections, Candidate::Envoy);
        let median = results.median(of.0, of.1, Question::WholePer10k).unwrap();
        assert!((median - 1.5).abs() < 1e-9, "{median}");
    }
}
