//! Everything that was measured: medians, and ratios between two candidates of the same round.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::Name;
use super::accounts::Spent;
use super::question::Question;
use crate::samples::Samples;

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Measurement {
    pub(crate) workload: String,
    pub(crate) candidate: String,
    pub(crate) round: usize,
    /// Of how many attempts it is the quietest.
    pub(crate) attempts: usize,
    /// From the start of the candidate until it served; zero if it never did.
    pub(crate) ready_millis: f64,
    pub(crate) spent: Spent,
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) error: Option<String>,
}

impl Measurement {
    /// Whether it was disturbed less by others, or is the first to succeed.
    pub(crate) fn is_better_than(&self, other: &Self) -> bool {
        self.error.is_none() && (other.error.is_some() || self.spent.noise() < other.spent.noise())
    }

    /// Whether the candidate came as far as the load.
    pub(crate) fn is_served(&self) -> bool {
        self.ready_millis > 0.0
    }

    /// Whether the load had no more to give while the candidate had: then its rate is the load's, not the candidate's.
    pub(crate) fn is_load_the_limit(&self) -> bool {
        const FULL: f64 = 0.95;
        const FREE: f64 = 0.9;
        let busy = |name: &str| self.figures.get(name).copied();
        let of_both = busy("loadBusy").zip(busy("proxyBusy"));
        of_both.is_some_and(|(load, proxy)| load >= FULL && proxy < FREE)
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}, {}, {}:", self.round + 1, self.workload, self.candidate)?;
        if let Some(error) = &self.error {
            write!(f, " failed: {error}")?;
        }
        for (name, value) in &self.figures {
            write!(f, " {name} {value:.2}")?;
        }
        write!(f, "; its CPU {:.2} s, noise {:.2}", self.spent.proxy(), self.spent.noise())
    }
}

/// All measurements of a run.
#[derive(Debug, Default)]
pub(crate) struct Results(Vec<Measurement>);

impl Results {
    pub(crate) fn push(&mut self, measurement: Measurement) {
        self.0.push(measurement);
    }

    /// Reads the measurements of files, one JSON object a line. Rounds of different files stay apart.
    pub(crate) fn load(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for path in files {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
            all.add(&text).with_context(|| format!("{} holds no measurements", path.display()))?;
        }
        Ok(all)
    }

    fn add(&mut self, text: &str) -> serde_json::Result<()> {
        let first = self.0.iter().map(|m| m.round + 1).max().unwrap_or(0);
        for line in text.lines() {
            let measurement: Measurement = serde_json::from_str(line)?;
            self.0.push(Measurement { round: first + measurement.round, ..measurement });
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Measurement> {
        self.0.iter()
    }

    pub(crate) fn of<W: Name, C: Name>(
        &self,
        (workload, candidate): (W, C),
    ) -> impl Iterator<Item = &Measurement> {
        let (workload, candidate) = (workload.name(), candidate.name());
        self.0.iter().filter(move |m| m.workload == workload && m.candidate == candidate)
    }

    /// What to say in place of answers of a candidate that has none, if it was tried.
    pub(crate) fn failure<W: Name, C: Name>(&self, of: (W, C)) -> Option<&'static str> {
        let mut tried = self.of(of).peekable();
        tried.peek()?;
        let (mut failed, mut served) = (true, false);
        for measurement in tried {
            failed &= measurement.error.is_some();
            served |= measurement.is_served();
        }
        failed.then_some(if served { "failed" } else { "not served" })
    }

    fn good<W: Name, C: Name>(&self, of: (W, C), question: Question) -> impl Iterator<Item = (usize, f64)> {
        let good = self.of(of).filter(|m| m.error.is_none());
        good.filter_map(move |m| Some((m.round, question.ask(m)?)))
    }

    /// All answers of a candidate that did not fail.
    pub(crate) fn answers<W: Name, C: Name>(&self, of: (W, C), question: Question) -> Samples {
        self.good(of, question).map(|(_, answer)| answer).collect()
    }

    pub(crate) fn median<W: Name, C: Name>(&self, of: (W, C), question: Question) -> Option<f64> {
        let answers = self.answers(of, question);
        (answers.len() > 0).then(|| answers.middle())
    }

    /// The median over the rounds of one answer divided by another of the same round.
    pub(crate) fn ratio<W: Name, C: Name>(&self, of: (W, C), to: (W, C), question: Question) -> Option<f64> {
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
pub(crate) mod tests {
    use super::*;

    /// Names of a bench that does not exist.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
    pub(crate) enum Who {
        Ours,
        Slow,
        Absent,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
    pub(crate) enum What {
        /// Connections that come.
        Connections,
    }

    pub(crate) fn measured(candidate: Who, round: usize, cpu: f64) -> Measurement {
        Measurement {
            workload: What::Connections.name(),
            candidate: candidate.name(),
            round,
            attempts: 1,
            ready_millis: 5.0,
            spent: Spent { seconds: 1.0, proxy_user: cpu, load: 1.0, ..Spent::default() },
            figures: BTreeMap::from([("connections".into(), 10_000.0)]),
            error: None,
        }
    }

    /// The machine becomes slower from round to round; the ratio does not.
    pub(crate) fn slowing() -> Results {
        let mut results = Results::default();
        for (round, slow) in [1.0, 3.0, 9.0].into_iter().enumerate() {
            results.push(measured(Who::Ours, round, slow));
            results.push(measured(Who::Slow, round, 2.0 * slow));
        }
        results
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let (results, of) = (slowing(), |candidate| (What::Connections, candidate));
        assert_eq!(results.ratio(of(Who::Ours), of(Who::Slow), Question::CpuPer10k), Some(0.5));
        assert_eq!(results.ratio(of(Who::Ours), of(Who::Absent), Question::CpuPer10k), None);
    }

    #[test]
    fn measurements_are_read_as_they_were_written_and_rounds_of_two_files_stay_apart() {
        let line = serde_json::to_string(&measured(Who::Slow, 0, 0.5)).unwrap();
        let mut results = Results::default();
        results.add(&line).unwrap();
        results.add(&line).unwrap();
        assert_eq!(results.iter().map(|m| m.round).collect::<Vec<_>>(), [0, 1]);
        let median = results.median((What::Connections, Who::Slow), Question::WholePer10k).unwrap();
        assert!((median - 1.5).abs() < 1e-9, "{median}");
        assert!(results.add("{}").is_err());
    }

    #[test]
    fn who_never_served_is_told_from_who_failed() {
        let of = (What::Connections, Who::Ours);
        let failed = |ready_millis| Measurement {
            ready_millis,
            error: Some("it ended".into()),
            ..measured(Who::Ours, 0, 1.0)
        };
        let mut results = Results::default();
        assert_eq!(results.failure(of), None);
        results.push(failed(0.0));
        assert_eq!(results.failure(of), Some("not served"));
        results.push(failed(5.0));
        assert_eq!(results.failure(of), Some("failed"));
        results.push(measured(Who::Ours, 1, 1.0));
        assert_eq!(results.failure(of), None);
    }

    #[test]
    fn a_full_load_beside_an_idle_candidate_is_the_limit() {
        let busy = |load, proxy| {
            let mut measurement = measured(Who::Ours, 0, 1.0);
            measurement.figures.extend([("loadBusy".to_owned(), load), ("proxyBusy".to_owned(), proxy)]);
            measurement.is_load_the_limit()
        };
        assert!(busy(0.99, 0.7) && !busy(0.99, 0.97) && !busy(0.8, 0.7));
        assert!(!measured(Who::Ours, 0, 1.0).is_load_the_limit());
    }

    #[test]
    fn a_failure_is_never_better_and_less_noise_is() {
        let good = |others| {
            let mut good = measured(Who::Ours, 0, 1.0);
            good.spent.others = others;
            good
        };
        let failed = Measurement { error: Some("lost".into()), ..good(0.0) };
        assert!(!failed.is_better_than(&good(1.0)) && good(1.0).is_better_than(&failed));
        assert!(good(0.1).is_better_than(&good(0.2)) && !good(0.2).is_better_than(&good(0.1)));
    }
}
