//! The results as Markdown: what was aimed at and found, ratios beside each peer, and a table for each kind of load.

use std::fmt::Write;

use super::aims::{self, Verdict};
use super::candidate::Candidate;
use super::results::{Question, Results};
use super::workload::Workload;
use crate::samples::Samples;

/// Everything as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut report = Report { results, out: String::new() };
    report.verdicts(&aims::judge(results));
    report.ratios();
    report.integrity();
    for (title, question, digits) in [
        ("Bulk: Gbit/s", Question::GbitPerSecond, 1),
        ("Bulk: CPU seconds of the proxy per GiB", Question::ProxyPerGib, 3),
        ("Bulk: CPU seconds of the whole run per GiB", Question::WholePerGib, 3),
    ] {
        let columns = Workload::BULK.map(|w| (w.name(), w, question, digits));
        report.table(title, &columns);
    }
    for (title, w) in [
        ("New connections by name, 64 at a time", Workload::Connections),
        ("New connections on the plain listener, 64 at a time", Workload::ConnectionsPlain),
    ] {
        report.table(
            title,
            &[
                ("per second", w, Question::ConnectionsPerSecond, 0),
                ("proxy CPU s per 10,000", w, Question::ProxyPer10k, 2),
                ("of it user", w, Question::UserPer10k, 2),
                ("whole run per 10,000", w, Question::WholePer10k, 2),
                ("p50 ms", w, Question::P50Millis, 2),
                ("p99 ms", w, Question::P99Millis, 2),
                ("failed", w, Question::Failed, 0),
            ],
        );
    }
    let w = Workload::Pings;
    report.table(
        "Round trips of 64 bytes on 64 connections",
        &[
            ("per second", w, Question::RoundTripsPerSecond, 0),
            ("proxy CPU µs each", w, Question::ProxyPerRoundTrip, 1),
            ("p50 ms", w, Question::P50Millis, 2),
            ("p99 ms", w, Question::P99Millis, 2),
        ],
    );
    for (title, w) in [
        ("Memory of idle connections", Workload::Idle),
        ("Memory of connections that carried 256 KiB each and then idle", Workload::IdleUsed),
    ] {
        report.table(
            title,
            &[
                ("bytes per connection", w, Question::BytesPerConnection, 0),
                ("MiB before", w, Question::MibBefore, 1),
                ("MiB held", w, Question::MibHeld, 1),
                ("MiB after close", w, Question::MibAfter, 1),
            ],
        );
    }
    for (title, w) in [
        ("1,000 names", Workload::Names1000),
        ("5,000 names", Workload::Names5000),
        ("100,000 names", Workload::Names100000),
    ] {
        report.table(
            title,
            &[
                ("start to serving, ms", w, Question::ReadyMillis, 0),
                ("MiB", w, Question::MibWithNames, 1),
                ("connections per second", w, Question::ConnectionsPerSecond, 0),
                ("proxy CPU s per 10,000", w, Question::ProxyPer10k, 2),
            ],
        );
    }
    report.noise();
    report.out
}

struct Report<'a> {
    results: &'a Results,
    out: String,
}

/// The heading, load, question and digits of a column.
type Column<'a> = (&'a str, Workload, Question, usize);

impl Report<'_> {
    fn head(&mut self, title: &str, columns: &[&str]) {
        let _ = writeln!(self.out, "\n### {title}\n\n| | {} |", columns.join(" | "));
        let _ = writeln!(self.out, "|---|{}", "---|".repeat(columns.len()));
    }

    fn verdicts(&mut self, verdicts: &[Verdict]) {
        self.head("Aims", &["found", ""]);
        for Verdict { aim, found, met } in verdicts {
            let word = if *met { "**met**" } else { "missed" };
            let _ = writeln!(self.out, "| {aim} | {found} | {word} |");
        }
    }

    /// Ours divided by each peer's.
    fn ratios(&mut self) {
        let peers: Vec<Candidate> = Candidate::ALL.into_iter().filter(|c| c.is_peer()).collect();
        let columns: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
        self.head("Causeway divided by each peer, median over the rounds", &columns);
        let bulk = [
            ("Gbit/s", Question::GbitPerSecond),
            ("proxy CPU per GiB", Question::ProxyPerGib),
            ("whole run's CPU per GiB", Question::WholePerGib),
        ];
        let mut rows: Vec<(String, Workload, Question)> = Vec::new();
        for (what, question) in bulk {
            rows.extend(Workload::BULK.map(|w| (format!("{}: {what}", w.name()), w, question)));
        }
        for w in [Workload::Connections, Workload::ConnectionsPlain] {
            rows.push((format!("{}: per second", w.name()), w, Question::ConnectionsPerSecond));
            rows.push((format!("{}: proxy CPU", w.name()), w, Question::ProxyPer10k));
            rows.push((format!("{}: whole run's CPU", w.name()), w, Question::WholePer10k));
        }
        let w = Workload::Pings;
        rows.push(("pings: per second".into(), w, Question::RoundTripsPerSecond));
        rows.push(("pings: p99".into(), w, Question::P99Millis));
        rows.push(("pings: proxy CPU".into(), w, Question::ProxyPerRoundTrip));
        for (name, workload, question) in rows {
            let cells: Vec<String> = peers
                .iter()
                .map(|peer| {
                    let ours = (workload, Candidate::Causeway);
                    let ratio = self.results.ratio(ours, (workload, *peer), question);
                    ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"))
                })
                .collect();
            if cells.iter().any(|cell| cell != "–") {
                let _ = writeln!(self.out, "| {name} | {} |", cells.join(" | "));
            }
        }
    }

    fn integrity(&mut self) {
        let title = "Integrity: 64 MiB echoed, the client half-closes with data on its way";
        self.head(title, &["by name", "plain"]);
        for candidate in Candidate::ALL {
            let cell = |workload| {
                self.results.of(workload, candidate).next().map(|m| match &m.error {
                    None => "whole".to_owned(),
                    Some(error) => format!("**lost**: {error}"),
                })
            };
            let cells = [Workload::IntegritySni, Workload::IntegrityPlain].map(cell);
            if cells.iter().any(Option::is_some) {
                let cells = cells.map(|cell| cell.unwrap_or_else(|| "–".into()));
                let _ = writeln!(self.out, "| {} | {} |", candidate.name(), cells.join(" | "));
            }
        }
    }

    /// Medians, with the lowest and highest where there are several rounds.
    fn table(&mut self, title: &str, columns: &[Column<'_>]) {
        let rows: Vec<(Candidate, Vec<String>)> = Candidate::ALL
            .into_iter()
            .map(|candidate| {
                let cell = |(_, workload, question, digits): &Column<'_>| {
                    cell(&self.results.answers(*workload, candidate, *question), *digits)
                };
                (candidate, columns.iter().map(cell).collect::<Vec<_>>())
            })
            .filter(|(_, cells)| cells.iter().any(|cell| cell != "–"))
            .collect();
        if rows.is_empty() {
            return;
        }
        let heads: Vec<&str> = columns.iter().map(|(head, ..)| *head).collect();
        self.head(title, &heads);
        for (candidate, cells) in rows {
            let _ = writeln!(self.out, "| {} | {} |", candidate.name(), cells.join(" | "));
        }
    }

    fn noise(&mut self) {
        let noise: Samples =
            self.results.iter().filter(|m| m.spent.seconds > 0.0).map(|m| m.spent.noise()).collect();
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
                let _ = writeln!(self.out, "\nFailed: {} on {}: {error}", m.candidate, m.workload);
            }
        }
    }
}

fn cell(answers: &Samples, digits: usize) -> String {
    match answers.len() {
        0 => "–".into(),
        1 => format!("{:.digits$}", answers.middle()),
        _ => {
            let (least, most) = (answers.quantile(0.0), answers.quantile(1.0));
            format!("{:.digits$} ({least:.digits$}–{most:.digits$})", answers.middle())
        }
    }
}
