//! What a bench aims at, as data, and whether a run shows it.

use super::load::Load;
use super::question::Question;
use super::results::Results;
use super::{Bench, Name};

/// How large a figure may be, or has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn is_met(self, found: f64) -> bool {
        match self {
            Self::AtMost(limit) => found <= limit,
            Self::AtLeast(limit) => found >= limit,
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtMost(limit) => format!("at most {limit}"),
            Self::AtLeast(limit) => format!("at least {limit}"),
        }
    }
}

/// What a figure of ours is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Beside<W, C> {
    /// Nothing: the figure itself counts.
    Nothing,
    /// The same figure of a candidate.
    Peer(C),
    /// The same figure of whichever candidate is best at each load.
    Best,
    /// The same figure of ours under another load.
    Load(W),
}

/// One thing that is aimed at. Over several loads the geometric mean counts.
#[derive(Debug)]
pub(crate) struct Aim<W: 'static, C> {
    what: &'static str,
    loads: &'static [W],
    question: Question,
    beside: Beside<W, C>,
    limit: Limit,
    /// Which candidate is asked, if not the one that is ours.
    of: Option<C>,
}

/// An aim, what was found, and whether it was reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) aim: String,
    pub(crate) found: String,
    pub(crate) met: bool,
}

/// Everything that a run can say of the aims of a bench.
pub(crate) fn judge<B: Bench>(results: &Results) -> Vec<Verdict> {
    let mut verdicts: Vec<_> =
        B::aims().iter().filter_map(|aim| aim.judge(results, B::OURS, B::DIRECT)).collect();
    for workload in B::Workload::all().filter(|w| matches!(B::load(*w), Load::Integrity)) {
        let mut all = results.of((workload, B::OURS)).peekable();
        if all.peek().is_some() {
            let failure = all.find_map(|m| m.error.clone());
            verdicts.push(Verdict {
                aim: format!("{}: nothing is lost when the client half-closes", workload.name()),
                met: failure.is_none(),
                found: failure.unwrap_or_else(|| "nothing".into()),
            });
        }
    }
    verdicts
}

impl<W: Name, C: Name> Aim<W, C> {
    pub(crate) fn new(
        what: &'static str,
        loads: &'static [W],
        question: Question,
        beside: Beside<W, C>,
        limit: Limit,
    ) -> Self {
        Self { what, loads, question, beside, limit, of: None }
    }

    /// The same of another candidate, where several are ours.
    pub(crate) fn of(self, candidate: C) -> Self {
        Self { of: Some(candidate), ..self }
    }

    fn judge(&self, results: &Results, ours: C, direct: C) -> Option<Verdict> {
        let ours = self.of.unwrap_or(ours);
        let ratio = |w: W, to: (W, C)| results.ratio((w, ours), to, self.question);
        let beside = |w: &W| match self.beside {
            Beside::Nothing => results.median((*w, ours), self.question),
            Beside::Peer(peer) => ratio(*w, (*w, peer)),
            Beside::Load(other) => ratio(*w, (other, ours)),
            Beside::Best => {
                let peers = C::all().filter(|peer| ![ours, direct].contains(peer));
                let ratios = peers.filter_map(|peer| ratio(*w, (*w, peer)));
                match self.limit {
                    Limit::AtMost(_) => ratios.max_by(f64::total_cmp),
                    Limit::AtLeast(_) => ratios.min_by(f64::total_cmp),
                }
            }
        };
        let found: Vec<f64> = self.loads.iter().filter_map(beside).collect();
        let mean = geometric_mean(&found)?;
        let other = match self.beside {
            Beside::Nothing => String::new(),
            Beside::Peer(peer) => format!(" of {}", peer.name()),
            Beside::Best => " of the best peer".into(),
            Beside::Load(other) => format!(" of {}", other.name()),
        };
        let mut text = format!("{mean:.2}");
        if found.len() > 1 {
            let lowest = found.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = found.iter().copied().fold(0.0, f64::max);
            text = format!("{mean:.2} ({lowest:.2}–{highest:.2})");
        }
        Some(Verdict {
            aim: format!("{}: {}{other}", self.what, self.limit.words()),
            found: text,
            met: self.limit.is_met(mean),
        })
    }
}

/// `None` of nothing.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{What, Who, slowing};
    use super::*;

    fn verdict(beside: Beside<What, Who>, limit: Limit) -> Option<Verdict> {
        Aim::new("CPU", &[What::Connections], Question::CpuPer10k, beside, limit).judge(
            &slowing(),
            Who::Ours,
            Who::Absent,
        )
    }

    #[test]
    fn an_aim_is_met_or_missed_by_the_ratio() {
        let found = verdict(Beside::Peer(Who::Slow), Limit::AtMost(0.5)).unwrap();
        assert_eq!((found.aim.as_str(), found.met), ("CPU: at most 0.5 of slow", true));
        assert!(!verdict(Beside::Peer(Who::Slow), Limit::AtLeast(0.6)).unwrap().met);
        assert_eq!(verdict(Beside::Best, Limit::AtMost(1.0)).unwrap().found, "0.50");
        assert_eq!(verdict(Beside::Nothing, Limit::AtMost(2.0)).unwrap().found, "3.00");
        assert_eq!(verdict(Beside::Peer(Who::Absent), Limit::AtMost(1.0)), None);
    }

    #[test]
    fn one_half_and_two_are_one_in_the_mean() {
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[0.0]), Some(0.0), "what never happened is at most nothing");
    }
}
