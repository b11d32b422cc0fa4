//! What we want to reach, and whether a run shows it.

use super::candidate::Candidate;
use super::candidate::Candidate::{Causeway, Envoy, HaproxyAuto, HaproxySplice, Nginx};
use super::results::{Question, Results};
use super::workload::Workload;

const BYTES_PER_CONNECTION: f64 = 2.5 * 1024.0;
const MIB_WITH_5000_NAMES: f64 = 10.0;
/// A part that the allocator keeps is no leak.
const KEPT: f64 = 0.25;

/// One aim and what was found.
pub struct Verdict {
    pub aim: String,
    pub found: String,
    pub met: bool,
}

/// Everything that the run can say of the aims.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let judge = Judge { results, verdicts: Vec::new() };
    judge.all()
}

struct Judge<'a> {
    results: &'a Results,
    verdicts: Vec<Verdict>,
}

impl Judge<'_> {
    fn all(mut self) -> Vec<Verdict> {
        let bulk = &Workload::BULK;
        let new = &[Workload::Connections, Workload::ConnectionsPlain];
        self.beside("proxy CPU per GiB", bulk, HaproxySplice, Question::ProxyPerGib, AtMost(1.0));
        self.beside("proxy CPU per GiB", bulk, Envoy, Question::ProxyPerGib, AtMost(0.4));
        self.beside_best("CPU of the whole run per GiB", bulk, Question::WholePerGib, AtMost(1.0));
        self.beside("bulk throughput", bulk, HaproxySplice, Question::GbitPerSecond, AtLeast(1.0));
        for peer in [Nginx, HaproxySplice, HaproxyAuto] {
            self.beside("proxy CPU per new connection", new, peer, Question::ProxyPer10k, AtMost(1.0));
        }
        self.beside("proxy CPU per new connection", new, Envoy, Question::ProxyPer10k, AtMost(0.5));
        let pings = &[Workload::Pings];
        self.beside_best("round trips per second", pings, Question::RoundTripsPerSecond, AtLeast(1.0));
        self.beside_best("p99 of round trips", pings, Question::P99Millis, AtMost(1.0));
        for (workload, when) in [(Workload::Idle, "idle"), (Workload::IdleUsed, "idle after it was busy")] {
            let name = format!("bytes per connection, {when}");
            self.plain(&name, workload, Question::BytesPerConnection, BYTES_PER_CONNECTION, "");
            let name = format!("part of it kept after close, {when}");
            self.plain(&name, workload, Question::Kept, KEPT, "");
        }
        let names = Workload::Names5000;
        self.plain("memory with 5,000 names", names, Question::MibWithNames, MIB_WITH_5000_NAMES, " MiB");
        self.many_names();
        self.integrity();
        self.verdicts
    }

    /// Ours divided by a peer's: the geometric mean over workloads, with the lowest and highest.
    fn beside(
        &mut self,
        what: &str,
        workloads: &[Workload],
        peer: Candidate,
        question: Question,
        limit: Limit,
    ) {
        let ratios: Vec<f64> = workloads
            .iter()
            .filter_map(|w| self.results.ratio((*w, Causeway), (*w, peer), question))
            .collect();
        self.ratio(what, peer.name(), &ratios, limit);
    }

    /// The same beside whichever peer is best in each workload.
    fn beside_best(&mut self, what: &str, workloads: &[Workload], question: Question, limit: Limit) {
        let ratios: Vec<f64> = workloads
            .iter()
            .filter_map(|w| {
                let peers = Candidate::ALL.into_iter().filter(|c| c.is_peer());
                let ratios =
                    peers.filter_map(|peer| self.results.ratio((*w, Causeway), (*w, peer), question));
                match limit {
                    AtMost(_) => ratios.max_by(f64::total_cmp),
                    AtLeast(_) => ratios.min_by(f64::total_cmp),
                }
            })
            .collect();
        self.ratio(what, "the best peer", &ratios, limit);
    }

    fn ratio(&mut self, what: &str, peer: &str, ratios: &[f64], limit: Limit) {
        if ratios.is_empty() {
            return;
        }
        let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let (aim, met) = match limit {
            AtMost(limit) => (format!("at most {limit} of {peer}"), mean <= limit),
            AtLeast(limit) => (format!("at least {limit} of {peer}"), mean >= limit),
        };
        let mut found = format!("{mean:.2}");
        if ratios.len() > 1 {
            let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = ratios.iter().copied().fold(0.0, f64::max);
            found = format!("{mean:.2} ({lowest:.2}–{highest:.2})");
        }
        self.verdicts.push(Verdict { aim: format!("{what}: {aim}"), found, met });
    }

    fn plain(&mut self, what: &str, workload: Workload, question: Question, limit: f64, unit: &str) {
        if let Some(found) = self.results.median(workload, Causeway, question) {
            let text = if found >= 100.0 { format!("{found:.0}{unit}") } else { format!("{found:.2}{unit}") };
            self.verdicts.push(Verdict {
                aim: format!("{what}: under {limit}{unit}"),
                found: text,
                met: found < limit,
            });
        }
    }

    fn many_names(&mut self) {
        let (many, few) = ((Workload::Names100000, Causeway), (Workload::Connections, Causeway));
        for (what, question, limit) in [
            ("connection rate", Question::ConnectionsPerSecond, AtLeast(0.95)),
            ("CPU per connection", Question::ProxyPer10k, AtMost(1.05)),
        ] {
            let ratio = self.results.ratio(many, few, question);
            let what = format!("{what} with 100,000 names");
            self.ratio(&what, "that with 16", ratio.as_slice(), limit);
        }
    }

    fn integrity(&mut self) {
        for workload in [Workload::IntegritySni, Workload::IntegrityPlain] {
            let failures: Vec<_> = self.results.of(workload, Causeway).map(|m| m.error.clone()).collect();
            if failures.is_empty() {
                continue;
            }
            let failure = failures.into_iter().flatten().next();
            self.verdicts.push(Verdict {
                aim: format!("nothing lost when the client half-closes: {}", workload.name()),
                met: failure.is_none(),
                found: failure.unwrap_or_else(|| "nothing".into()),
            });
        }
    }
}

use Limit::{AtLeast, AtMost};

#[derive(Debug, Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}
