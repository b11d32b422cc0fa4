//! The results as Markdown: what was aimed at and found, ratios beside each peer, and a table for each kind of load.

use std::fmt::Write;
use std::marker::PhantomData;

use super::aims::{self, Verdict};
use super::load::Load;
use super::question::Question;
use super::results::Results;
use super::{Bench, Name};
use crate::samples::Samples;

/// Everything as Markdown.
pub(crate) fn markdown<B: Bench>(results: &Results) -> String {
    let mut report = Report::<B> { results, out: String::new(), bench: PhantomData };
    report.verdicts(&aims::judge::<B>(results));
    report.ratios();
    report.integrity();
    let bulk: Vec<_> = B::Workload::all().filter(|w| matches!(B::load(*w), Load::Bulk(..))).collect();
    for question in Load::BULK {
        let columns: Vec<_> = bulk.iter().map(|w| (w.name(), *w, *question)).collect();
        report.table(&format!("Bulk: {}", question.heading().0), &columns);
    }
    for workload in B::Workload::all().filter(|w| !bulk.contains(w)) {
        let questions = B::load(workload).questions().iter();
        let columns: Vec<_> = questions.map(|q| (q.heading().0.to_owned(), workload, *q)).collect();
        report.table(&format!("{}: {}", workload.name(), workload.description()), &columns);
    }
    report.noise();
    report.out
}

struct Report<'a, B> {
    results: &'a Results,
    out: String,
    bench: PhantomData<B>,
}

/// Heading, load and question.
type Column<W> = (String, W, Question);

impl<B: Bench> Report<'_, B> {
    fn head(&mut self, title: &str, columns: &[String]) {
        let _ = writeln!(self.out, "\n### {title}\n\n| | {} |", columns.join(" | "));
        let _ = writeln!(self.out, "|---|{}", "---|".repeat(columns.len()));
    }

    /// A row, unless it is empty.
    fn row(&mut self, name: &str, cells: &[Option<String>]) {
        if cells.iter().any(Option::is_some) {
            let cells: Vec<&str> = cells.iter().map(|cell| cell.as_deref().unwrap_or("–")).collect();
            let _ = writeln!(self.out, "| {name} | {} |", cells.join(" | "));
        }
    }

    fn verdicts(&mut self, verdicts: &[Verdict]) {
        self.head("Aims", &["found".into(), String::new()]);
        for Verdict { aim, found, met } in verdicts {
            let word = if *met { "**reached**" } else { "not reached" };
            self.row(aim, &[Some(found.clone()), Some(word.into())]);
        }
    }

    /// Ours divided by each of the others that were measured.
    fn ratios(&mut self) {
        let measured = |c: &B::Candidate| self.results.iter().any(|m| m.candidate == c.name());
        let peers: Vec<_> =
            B::Candidate::all().filter(|c| ![B::OURS, B::DIRECT].contains(c)).filter(measured).collect();
        let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
        self.head("Causeway divided by each peer, median over the rounds", &names);
        for workload in B::Workload::all() {
            for question in B::load(workload).questions().iter().filter(|q| q.has_ratio()) {
                let ratio = |peer: &B::Candidate| {
                    self.results.ratio((workload, B::OURS), (workload, *peer), *question)
                };
                let cells: Vec<_> = peers.iter().map(|p| ratio(p).map(|r| format!("{r:.2}"))).collect();
                self.row(&format!("{}: {}", workload.name(), question.heading().0), &cells);
            }
        }
    }

    fn integrity(&mut self) {
        let checks: Vec<_> = B::Workload::all().filter(|w| matches!(B::load(*w), Load::Integrity)).collect();
        if checks.is_empty() {
            return;
        }
        let names: Vec<String> = checks.iter().map(|w| w.name()).collect();
        self.head("Integrity: 64 MiB echoed, the client half-closes with data on its way", &names);
        for candidate in B::Candidate::all() {
            let cell = |w: &B::Workload| {
                let measured = self.results.of((*w, candidate)).next()?;
                Some(measured.error.as_ref().map_or_else(|| "whole".into(), |e| format!("**lost**: {e}")))
            };
            let cells: Vec<_> = checks.iter().map(cell).collect();
            self.row(&candidate.name(), &cells);
        }
    }

    /// Medians, with the lowest and highest where there are several rounds; columns that say nothing are left out.
    fn table(&mut self, title: &str, columns: &[Column<B::Workload>]) {
        let answered = |(_, workload, question): &&Column<B::Workload>| {
            B::Candidate::all().any(|c| self.results.median((*workload, c), *question).is_some())
        };
        let columns: Vec<_> = columns.iter().filter(answered).collect();
        if columns.is_empty() {
            return;
        }
        let heads: Vec<String> = columns.iter().map(|(head, ..)| head.clone()).collect();
        self.head(title, &heads);
        for candidate in B::Candidate::all() {
            let answers = |w: B::Workload, q: Question| self.results.answers((w, candidate), q);
            let failure = |w: B::Workload| self.results.failure((w, candidate)).map(str::to_owned);
            let shown = |(_, w, q): &&Column<B::Workload>| {
                cell(&answers(*w, *q), q.heading().1).or_else(|| failure(*w))
            };
            let cells: Vec<_> = columns.iter().map(shown).collect();
            self.row(&candidate.name(), &cells);
        }
    }

    fn noise(&mut self) {
        let timed = self.results.iter().filter(|m| m.spent.seconds > 0.0);
        let noise: Samples = timed.map(|m| m.spent.noise()).collect();
        let again = self.results.iter().filter(|m| m.attempts > 1).count();
        let _ = writeln!(
            self.out,
            "\nNoise: {} timed measurements; cores taken by others: median {:.3}, p90 {:.3}, most {:.3}; {again} were repeated.",
            noise.len(),
            noise.median(),
            noise.quantile(0.9),
            noise.quantile(1.0)
        );
        for m in self.results.iter().filter(|m| !m.workload.starts_with("integrity")) {
            if let Some(error) = &m.error {
                let what = if m.is_served() { "Failed" } else { "Not served" };
                let _ = writeln!(self.out, "\n{what}: {} on {}: {error}", m.candidate, m.workload);
            }
        }
        for m in self.results.iter().filter(|m| m.is_load_the_limit()) {
            let _ = writeln!(
                self.out,
                "\nThe load was the limit: {} on {} in round {}: its rate says nothing, its processor time does.",
                m.candidate,
                m.workload,
                m.round + 1
            );
        }
    }
}

fn cell(answers: &Samples, digits: usize) -> Option<String> {
    let (least, most) = (answers.quantile(0.0), answers.quantile(1.0));
    match answers.len() {
        0 => None,
        1 => Some(format!("{:.digits$}", answers.middle())),
        _ => Some(format!("{:.digits$} ({least:.digits$}–{most:.digits$})", answers.middle())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_the_spread_where_there_is_one() {
        let shown = |values: &[f64]| cell(&values.iter().copied().collect(), 1);
        assert_eq!(shown(&[]), None);
        assert_eq!(shown(&[2.0]).unwrap(), "2.0");
        assert_eq!(shown(&[3.0, 1.0, 1.5]).unwrap(), "1.5 (1.0–3.0)");
    }
}
