//! The results as Markdown: what was aimed at and found, ratios beside each way of rathole, and a table for each load.

use std::fmt::Write;

use super::candidate::Candidate;
use super::candidate::Candidate::{Causeway, RatholePlain, RatholeTls};
use super::results::{Question, Results};
use super::workload::Workload;
use crate::samples::Samples;

const KIB_PER_STREAM: f64 = 8.0;
/// Ours in TLS beside rathole's TLS.
const STREAMS_BESIDE_TLS: f64 = 7.0;
/// What dead backends may take of a healthy tunnel's streams before it counts as an effect.
const UNDER_FIRE: f64 = 0.95;

/// What a row is called, where it comes from, and whether more of it is better.
const ROWS: [(&str, Workload, Question, bool); 17] = [
    ("streams per second", Workload::Streams, Question::PerSecond, true),
    ("streams: p99", Workload::Streams, Question::P99Millis, false),
    ("streams: CPU per 10,000", Workload::Streams, Question::CpuPer10k, false),
    ("streams per second beside dead backends", Workload::StreamsUnderFire, Question::PerSecond, true),
    ("down-1: Gbit/s", Workload::Down1, Question::GbitPerSecond, true),
    ("up-1: Gbit/s", Workload::Up1, Question::GbitPerSecond, true),
    ("down-16: Gbit/s", Workload::Down16, Question::GbitPerSecond, true),
    ("up-16: Gbit/s", Workload::Up16, Question::GbitPerSecond, true),
    ("down-1: CPU per GiB", Workload::Down1, Question::CpuPerGib, false),
    ("up-1: CPU per GiB", Workload::Up1, Question::CpuPerGib, false),
    ("down-16: CPU per GiB", Workload::Down16, Question::CpuPerGib, false),
    ("up-16: CPU per GiB", Workload::Up16, Question::CpuPerGib, false),
    ("round trips per second", Workload::Pings, Question::PerSecond, true),
    ("round trips: p50", Workload::Pings, Question::P50Millis, false),
    ("round trips: p99", Workload::Pings, Question::P99Millis, false),
    ("round trips: CPU", Workload::Pings, Question::CpuPerRoundTrip, false),
    ("memory of an idle stream", Workload::Idle, Question::KibPerStream, false),
];

/// Everything as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut report = Report { results, out: String::new() };
    report.aims();
    report.ratios();
    report.integrity();
    for (title, w) in [
        ("New streams: connect, 64 bytes there and back, close; 100 users", Workload::Streams),
        ("The same beside two dead backends under fire", Workload::StreamsUnderFire),
    ] {
        report.table(
            title,
            &[
                ("per second", w, Question::PerSecond, 0),
                ("CPU s per 10,000", w, Question::CpuPer10k, 2),
                ("of it user", w, Question::UserPer10k, 2),
                ("p50 ms", w, Question::P50Millis, 2),
                ("p99 ms", w, Question::P99Millis, 2),
                ("failed", w, Question::Failed, 0),
                ("users of dead backends told", w, Question::Refused, 0),
                ("told after ms", w, Question::RefusalMillis, 1),
                ("gave up after 3 s", w, Question::GaveUp, 0),
            ],
        );
    }
    for (title, question, digits) in [
        ("Bulk: Gbit/s", Question::GbitPerSecond, 1),
        ("Bulk: CPU seconds of both ends per GiB", Question::CpuPerGib, 3),
    ] {
        report.table(title, &Workload::BULK.map(|w| (w.name(), w, question, digits)));
    }
    let w = Workload::Pings;
    report.table(
        "Round trips of 64 bytes on 64 streams",
        &[
            ("per second", w, Question::PerSecond, 0),
            ("CPU µs each", w, Question::CpuPerRoundTrip, 1),
            ("p50 ms", w, Question::P50Millis, 2),
            ("p99 ms", w, Question::P99Millis, 2),
        ],
    );
    let w = Workload::Idle;
    report.table(
        "Memory of idle streams, both ends together",
        &[
            ("KiB per stream", w, Question::KibPerStream, 1),
            ("MiB before", w, Question::MibBefore, 1),
            ("MiB held", w, Question::MibHeld, 1),
            ("MiB after close", w, Question::MibAfter, 1),
            ("start to serving, ms", w, Question::ReadyMillis, 0),
        ],
    );
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

    fn aims(&mut self) {
        self.head("Aims", &["found", ""]);
        for (name, workload, question, more) in ROWS {
            let ratio = self.results.ratio((workload, Causeway), (workload, RatholePlain), question);
            let aim = format!("{name}: at {} 1 of rathole-plain", if more { "least" } else { "most" });
            self.aim(&aim, ratio, |found| if more { found >= 1.0 } else { found <= 1.0 });
        }
        let streams = Workload::Streams;
        let ratio = self.results.ratio((streams, Causeway), (streams, RatholeTls), Question::PerSecond);
        let aim = format!("streams per second: at least {STREAMS_BESIDE_TLS} of rathole-tls");
        self.aim(&aim, ratio, |found| found >= STREAMS_BESIDE_TLS);
        let kib = self.results.median((Workload::Idle, Causeway), Question::KibPerStream);
        let aim = format!("memory of an idle stream, both ends: under {KIB_PER_STREAM} KiB");
        self.aim(&aim, kib, |found| found < KIB_PER_STREAM);
        let fire = self.under_fire(Causeway);
        let aim = format!("streams per second beside dead backends: at least {UNDER_FIRE} of those without");
        self.aim(&aim, fire, |found| found >= UNDER_FIRE);
        let integrity = self.results.of((Workload::Integrity, Causeway)).next();
        if let Some(measured) = integrity {
            let found = measured.error.clone().unwrap_or_else(|| "nothing".into());
            let word = word(measured.error.is_none());
            let _ = writeln!(self.out, "| nothing lost when the user half-closes | {found} | {word} |");
        }
    }

    fn aim(&mut self, aim: &str, found: Option<f64>, met: impl Fn(f64) -> bool) {
        if let Some(found) = found {
            let _ = writeln!(self.out, "| {aim} | {found:.2} | {} |", word(met(found)));
        }
    }

    /// What remains of a candidate's streams while users of dead tunnels come beside them.
    fn under_fire(&self, candidate: Candidate) -> Option<f64> {
        let (fire, peace) = (Workload::StreamsUnderFire, Workload::Streams);
        self.results.ratio((fire, candidate), (peace, candidate), Question::PerSecond)
    }

    /// Ours divided by each peer's.
    fn ratios(&mut self) {
        let names: Vec<&str> = Candidate::PEERS.iter().map(|peer| peer.name()).collect();
        self.head("Causeway divided by each way of rathole, median over the rounds", &names);
        for (name, workload, question, _) in ROWS {
            let cells: Vec<String> = Candidate::PEERS
                .iter()
                .map(|peer| {
                    let ratio = self.results.ratio((workload, Causeway), (workload, *peer), question);
                    ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"))
                })
                .collect();
            if cells.iter().any(|cell| cell != "–") {
                let _ = writeln!(self.out, "| {name} | {} |", cells.join(" | "));
            }
        }
        let tunnels: Vec<Candidate> = Candidate::ALL.into_iter().filter(|c| c.is_tunnel()).collect();
        let names: Vec<&str> = tunnels.iter().map(|candidate| candidate.name()).collect();
        self.head("What remains of each one's own streams beside dead backends", &names);
        let cells: Vec<String> = tunnels
            .iter()
            .map(|c| self.under_fire(*c).map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")))
            .collect();
        let _ = writeln!(self.out, "| streams per second | {} |", cells.join(" | "));
    }

    fn integrity(&mut self) {
        self.head("Integrity: 64 MiB echoed, the user half-closes with data on its way", &["found"]);
        for candidate in Candidate::ALL {
            if let Some(measured) = self.results.of((Workload::Integrity, candidate)).next() {
                let found =
                    measured.error.as_ref().map_or_else(|| "whole".into(), |e| format!("**lost**: {e}"));
                let _ = writeln!(self.out, "| {} | {found} |", candidate.name());
            }
        }
    }

    /// Medians, with the lowest and highest where there are several rounds; columns that say nothing are left out.
    fn table(&mut self, title: &str, columns: &[Column<'_>]) {
        let answered = |(_, workload, question, _): &&Column<'_>| {
            Candidate::ALL.iter().any(|c| self.results.median((*workload, *c), *question).is_some())
        };
        let columns: Vec<&Column<'_>> = columns.iter().filter(answered).collect();
        if columns.is_empty() {
            return;
        }
        let heads: Vec<&str> = columns.iter().map(|(head, ..)| *head).collect();
        self.head(title, &heads);
        for candidate in Candidate::ALL {
            let cells: Vec<String> = columns
                .iter()
                .map(|(_, workload, question, digits)| {
                    cell(&self.results.answers((*workload, candidate), *question), *digits)
                })
                .collect();
            if cells.iter().any(|cell| cell != "–") {
                let _ = writeln!(self.out, "| {} | {} |", candidate.name(), cells.join(" | "));
            }
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
        for m in self.results.iter().filter(|m| m.workload != Workload::Integrity.name()) {
            if let Some(error) = &m.error {
                let _ = writeln!(self.out, "\nFailed: {} on {}: {error}", m.candidate, m.workload);
            }
        }
    }
}

fn word(met: bool) -> &'static str {
    if met { "**met**" } else { "missed" }
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
