//! The main figures as bars in an SVG of our own making: one panel for each question, one bar for each candidate.

use std::fmt::Write;

use super::candidate::Candidate;
use super::workload::Workload;
use crate::compare::Name;
use crate::compare::aims::geometric_mean;
use crate::compare::question::Question;
use crate::compare::results::Results;

const WIDTH: f64 = 880.0;
const PANEL_WIDTH: f64 = 430.0;
const BAR: f64 = 15.0;
const STEP: f64 = 21.0;
const LABEL: f64 = 100.0;
const VALUE: f64 = 70.0;
const HEAD: f64 = 40.0;

struct Panel {
    title: &'static str,
    note: &'static str,
    question: Question,
    workloads: &'static [Workload],
    digits: usize,
    /// Whether the way without a proxy has an answer too.
    direct: bool,
}

const PANELS: [Panel; 6] = [
    Panel {
        title: "Proxy CPU seconds per GiB",
        note: "mean of five bulk loads; less is better",
        question: Question::CpuPerGib,
        workloads: &Workload::BULK,
        digits: 2,
        direct: false,
    },
    Panel {
        title: "CPU seconds of the whole run per GiB",
        note: "load, backend and proxy; less is better",
        question: Question::WholePerGib,
        workloads: &Workload::BULK,
        digits: 2,
        direct: true,
    },
    Panel {
        title: "Proxy CPU seconds per 10,000 new connections",
        note: "by server name; less is better",
        question: Question::CpuPer10k,
        workloads: &[Workload::Connections],
        digits: 2,
        direct: false,
    },
    Panel {
        title: "New connections per second",
        note: "by server name, 64 at a time; more is better",
        question: Question::PerSecond,
        workloads: &[Workload::Connections],
        digits: 0,
        direct: true,
    },
    Panel {
        title: "64-byte round trips per second",
        note: "64 connections; more is better",
        question: Question::PerSecond,
        workloads: &[Workload::Pings],
        digits: 0,
        direct: true,
    },
    Panel {
        title: "Bytes per idle connection that was busy",
        note: "resident memory; less is better",
        question: Question::BytesPerConnection,
        workloads: &[Workload::IdleUsed],
        digits: 0,
        direct: false,
    },
];

/// The plot.
pub(crate) fn svg(results: &Results) -> String {
    let panel_height = HEAD + STEP * Candidate::all().count() as f64 + 14.0;
    let height = panel_height * PANELS.len().div_ceil(2) as f64 + 8.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>Causeway beside its peers</title>\n\
         <style>text{{fill:#1f2328}}.note{{fill:#656d76;font-size:11px}}.title{{font-weight:600}}\
         .peer{{fill:#9aa7b4}}.ours{{fill:#1a7f5a}}.direct{{fill:#d5dbe1}}\
         @media (prefers-color-scheme:dark){{text{{fill:#e6edf3}}.note{{fill:#9198a1}}.peer{{fill:#6e7781}}\
         .ours{{fill:#3fb984}}.direct{{fill:#444c56}}}}</style>\n"
    );
    for (place, panel) in PANELS.iter().enumerate() {
        let x = if place % 2 == 0 { 8.0 } else { 16.0 + PANEL_WIDTH };
        draw(panel, results, x, panel_height * (place / 2) as f64, &mut out);
    }
    out.push_str("</svg>\n");
    out
}

fn draw(panel: &Panel, results: &Results, x: f64, y: f64, out: &mut String) {
    let bars: Vec<(Candidate, f64)> = Candidate::all()
        .filter(|candidate| panel.direct || *candidate != Candidate::Direct)
        .filter_map(|candidate| Some((candidate, mean(panel, results, candidate)?)))
        .collect();
    let most = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let _ = writeln!(out, "<text class=\"title\" x=\"{x}\" y=\"{}\">{}</text>", y + 16.0, panel.title);
    let _ = writeln!(out, "<text class=\"note\" x=\"{x}\" y=\"{}\">{}</text>", y + 31.0, panel.note);
    for (row, (candidate, value)) in bars.iter().enumerate() {
        let top = y + HEAD + STEP * row as f64;
        let length = (PANEL_WIDTH - LABEL - VALUE) * value / most;
        let class = match candidate {
            Candidate::Causeway => "ours",
            Candidate::Direct => "direct",
            _ => "peer",
        };
        let base = top + BAR - 3.5;
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{base}\">{}</text>", candidate.name());
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\"/>",
            x + LABEL
        );
        let text = number(*value, panel.digits);
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{base}\">{text}</text>", x + LABEL + length + 5.0);
    }
}

/// The geometric mean of the medians, if every load was measured.
fn mean(panel: &Panel, results: &Results, candidate: Candidate) -> Option<f64> {
    let median = |w: &Workload| results.median((*w, candidate), panel.question);
    geometric_mean(&panel.workloads.iter().map(median).collect::<Option<Vec<_>>>()?)
}

/// Thousands apart.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        let _ = write!(out, ".{rest}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(999.0, 0), "999");
        assert_eq!(number(1234.5, 1), "1,234.5");
        assert_eq!(number(0.25, 2), "0.25");
    }
}
