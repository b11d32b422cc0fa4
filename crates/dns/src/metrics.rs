//! Counters. Those of the hot path are kept per worker and summed when somebody looks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Types that are counted by name; the last stands for all others.
const KINDS: [(u16, &str); 12] = [
    (1, "A"),
    (28, "AAAA"),
    (12, "PTR"),
    (65, "HTTPS"),
    (6, "SOA"),
    (2, "NS"),
    (5, "CNAME"),
    (15, "MX"),
    (16, "TXT"),
    (33, "SRV"),
    (255, "ANY"),
    (0, "other"),
];
/// The same for response codes.
const CODES: [(u16, &str); 7] = [
    (0, "NOERROR"),
    (3, "NXDOMAIN"),
    (2, "SERVFAIL"),
    (5, "REFUSED"),
    (1, "FORMERR"),
    (4, "NOTIMP"),
    (u16::MAX, "other"),
];

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The plan, or nowhere: a refusal.
    Plan,
    Cache,
    /// The cache, after its time.
    Stale,
    Upstream,
}

const ORIGINS: [&str; 4] = ["plan", "cache", "stale", "upstream"];

impl Origin {
    pub(crate) fn text(self) -> &'static str {
        ORIGINS[self as usize]
    }
}

/// A type as people write it, `TYPE64` if it has no name here (RFC 3597).
pub(crate) fn kind_text(kind: u16) -> String {
    let known = KINDS.iter().find(|(known, text)| *known == kind && *text != "other");
    known.map_or_else(|| format!("TYPE{kind}"), |(_, text)| (*text).to_owned())
}

/// The same for response codes.
pub(crate) fn code_text(code: u16) -> String {
    let known = CODES.iter().find(|(known, _)| *known == code);
    known.map_or_else(|| format!("RCODE{code}"), |(_, text)| (*text).to_owned())
}

/// The counts of a view.
#[derive(Debug)]
pub(crate) struct ViewCounts {
    pub(crate) name: Arc<str>,
    workers: Box<[WorkerCounts]>,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct WorkerCounts {
    queries: [[AtomicU64; CODES.len()]; KINDS.len()],
    origins: [AtomicU64; ORIGINS.len()],
    limited: AtomicU64,
}

impl ViewCounts {
    pub(crate) fn count(&self, worker: usize, kind: u16, code: u16, origin: Origin) {
        let counts = &self.workers[worker % self.workers.len()];
        counts.queries[index(&KINDS, kind)][index(&CODES, code)].fetch_add(1, Relaxed);
        counts.origins[origin as usize].fetch_add(1, Relaxed);
    }

    /// Counts an answer that the limit kept back or cut.
    pub(crate) fn limited(&self, worker: usize) {
        self.workers[worker % self.workers.len()].limited.fetch_add(1, Relaxed);
    }

    fn sum(&self, of: impl Fn(&WorkerCounts) -> &AtomicU64) -> u64 {
        self.workers.iter().map(|counts| of(counts).load(Relaxed)).sum()
    }
}

fn index(table: &[(u16, &str)], value: u16) -> usize {
    table.iter().position(|(known, _)| *known == value).unwrap_or(table.len() - 1)
}

/// All counters of a server.
pub(crate) struct Metrics {
    views: Arc<Mutex<BTreeMap<Arc<str>, Arc<ViewCounts>>>>,
    latency: Family<Labels, Histogram, fn() -> Histogram>,
    failures: Family<Labels, Counter>,
    /// Messages that came in place of a reply and were none.
    strangers: Family<Labels, Counter>,
    pub(crate) prefetches: Counter,
    pub(crate) tcp_connections: Counter,
    pub(crate) plans_applied: Counter,
    pub(crate) plans_refused: Counter,
    pub(crate) cache_answers: Gauge,
    pub(crate) cache_bytes: Gauge,
    pub(crate) log_lines_lost: Counter,
}

type Labels = [(&'static str, String); 1];

/// The counters of one resolver.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamMetrics {
    pub(crate) latency: Histogram,
    pub(crate) failures: Counter,
    pub(crate) strangers: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let buckets =
            || Histogram::new([0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0]);
        Self {
            views: Arc::default(),
            latency: Family::new_with_constructor(buckets),
            failures: Family::default(),
            strangers: Family::default(),
            prefetches: Counter::default(),
            tcp_connections: Counter::default(),
            plans_applied: Counter::default(),
            plans_refused: Counter::default(),
            cache_answers: Gauge::default(),
            cache_bytes: Gauge::default(),
            log_lines_lost: Counter::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Views(Arc::clone(&self.views))));
        let r = registry.sub_registry_with_prefix("causeway_dns");
        r.register("upstream_latency_seconds", "Time until a resolver answered", self.latency.clone());
        r.register("upstream_failures", "Questions that a resolver did not answer", self.failures.clone());
        let help = "Messages to a question of ours that did not answer it, perhaps forged";
        r.register("upstream_strangers", help, self.strangers.clone());
        r.register("prefetches", "Names asked again before their time was over", self.prefetches.clone());
        r.register("tcp_connections", "TCP connections of clients", self.tcp_connections.clone());
        r.register("plans_applied", "Plans taken into use", self.plans_applied.clone());
        r.register("plans_refused", "Plans that could not be run", self.plans_refused.clone());
        r.register("cache_answers", "Answers of resolvers that are kept", self.cache_answers.clone());
        r.register("cache_bytes", "Memory that they take", self.cache_bytes.clone());
        r.register("query_log_lines_lost", "Lines that the log could not take", self.log_lines_lost.clone());
    }

    /// The counts of a view, which go on when a plan has it again.
    pub(crate) fn view(&self, name: &str, workers: usize) -> Arc<ViewCounts> {
        let mut views = lock(&self.views);
        if let Some(counts) = views.get(name) {
            return Arc::clone(counts);
        }
        let name: Arc<str> = name.into();
        let workers = (0..workers.max(1)).map(|_| WorkerCounts::default()).collect();
        let counts = Arc::new(ViewCounts { name: Arc::clone(&name), workers });
        views.insert(name, Arc::clone(&counts));
        counts
    }

    pub(crate) fn upstream(&self, address: &str) -> UpstreamMetrics {
        let labels = [("upstream", address.to_owned())];
        UpstreamMetrics {
            latency: self.latency.get_or_create_owned(&labels),
            failures: self.failures.get_or_create_owned(&labels),
            strangers: self.strangers.get_or_create_owned(&labels),
        }
    }
}

#[derive(Debug)]
struct Views(Arc<Mutex<BTreeMap<Arc<str>, Arc<ViewCounts>>>>);

impl Collector for Views {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let views: Vec<Arc<ViewCounts>> = lock(&self.0).values().cloned().collect();
        let mut counter = |name: &str,
                           help: &str,
                           fill: &dyn Fn(&ViewCounts, &mut Series<'_>) -> fmt::Result|
         -> fmt::Result {
            let mut series = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            let mut write = |labels: &[(&str, &str)], value: u64| -> fmt::Result {
                series.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)
            };
            views.iter().try_for_each(|view| fill(view, &mut write))
        };
        counter("causeway_dns_queries", "Questions that were answered", &|view, write| {
            for (i, (_, kind)) in KINDS.iter().enumerate() {
                for (j, (_, code)) in CODES.iter().enumerate() {
                    let value = view.sum(|counts| &counts.queries[i][j]);
                    if value > 0 {
                        write(&[("view", &view.name), ("type", kind), ("rcode", code)], value)?;
                    }
                }
            }
            Ok(())
        })?;
        counter("causeway_dns_answers", "Answers by where they came from", &|view, write| {
            ORIGINS.iter().enumerate().try_for_each(|(i, origin)| {
                write(&[("view", &view.name), ("origin", origin)], view.sum(|counts| &counts.origins[i]))
            })
        })?;
        counter("causeway_dns_limited", "Answers that the rate limit kept back or cut", &|view, write| {
            write(&[("view", &view.name)], view.sum(|counts| &counts.limited))
        })
    }
}

type Series<'a> = dyn FnMut(&[(&str, &str)], u64) -> fmt::Result + 'a;
