//! The figures of both servers side by side, and what they should be.

use std::collections::BTreeMap;
use std::fmt;

use super::candidate::Candidate;
use crate::samples::Samples;

/// What a figure of ours should be.
enum Aim {
    /// At least so many times Kea's.
    Times(f64),
    /// At most this.
    AtMost(f64),
}

fn aim(name: &str) -> Option<Aim> {
    Some(match name {
        _ if name.contains("exchanges per second") => Aim::Times(2.0),
        _ if name.contains("ACK p99") => Aim::AtMost(1.2),
        _ if name.starts_with("memory") => Aim::AtMost(30.0),
        _ if name.contains("processor") => Aim::AtMost(0.2),
        _ => return None,
    })
}

/// Figures by their names, in the order in which they came first.
#[derive(Default)]
pub(super) struct Report {
    names: Vec<String>,
    figures: BTreeMap<(usize, &'static str), Samples>,
}

impl Report {
    pub(super) fn add(&mut self, candidate: &Candidate, name: String, value: f64) {
        let place = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        self.figures.entry((place, candidate.name())).or_default().push(value);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.names.iter().map(String::len).max().unwrap_or(0);
        writeln!(f, "{:width$}  {:>9}  {:>9}  {:>6}  aim", "", "causeway", "kea", "ratio")?;
        for (place, name) in self.names.iter().enumerate() {
            let of = |who| self.figures.get(&(place, who)).map_or(0.0, Samples::middle);
            let (ours, kea) = (of("causeway"), of("kea"));
            let ratio = ours / kea;
            let verdict = aim(name).map(|aim| {
                let (text, is_met) = match aim {
                    Aim::Times(times) => (format!("at least {times} × kea"), ratio >= times),
                    Aim::AtMost(most) => (format!("at most {most}"), ours <= most),
                };
                format!("{text}: {}", if is_met { "met" } else { "MISSED" })
            });
            let line = format!(
                "{name:width$}  {:>9}  {:>9}  {ratio:>6.2}  {}",
                figure(ours),
                figure(kea),
                verdict.unwrap_or_default()
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Three significant digits, which is more than a shared machine can promise.
fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
