//! How many requests there were, and how long they took, by route and by cluster. Counted without a lock, and written when
//! somebody asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use causeway_base::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::InlineCounter;

/// Milliseconds.
const BOUNDS: [u64; 13] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];

/// The times of one route, or of one cluster.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Times {
    millis: AtomicU64,
    counts: [AtomicU64; BOUNDS.len() + 1],
}

impl Times {
    pub(crate) fn count(&self, millis: u64) {
        let place = BOUNDS.partition_point(|bound| *bound < millis);
        self.counts[place].fetch_add(1, Relaxed);
        self.millis.fetch_add(millis, Relaxed);
    }

    /// Whether there are any.
    fn are_known(&self) -> bool {
        self.counts.iter().any(|count| count.load(Relaxed) > 0)
    }

    /// Writes them as one of a family of histograms.
    pub(super) fn encode<L: EncodeLabelSet>(
        &self,
        series: &mut MetricEncoder<'_>,
        labels: &L,
    ) -> Result<(), fmt::Error> {
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / 1000.0).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let total = buckets.iter().map(|(_, count)| count).sum();
        let seconds = self.millis.load(Relaxed) as f64 / 1000.0;
        series.encode_family(labels)?.encode_histogram::<NoLabelSet>(seconds, total, &buckets, None)
    }
}

/// What became of requests. Most counts of a quick one lie in the same line of the processor's cache.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Answers {
    pub(crate) classes: [InlineCounter; CLASSES.len()],
    pub(crate) times: Times,
}

impl Answers {
    /// Counts a request by the status of its answer and the milliseconds it took.
    pub(crate) fn count(&self, status: u16, millis: u64) {
        self.count_status(status);
        self.times.count(millis);
    }

    /// Counts one of which nothing else is said.
    pub(crate) fn count_status(&self, status: u16) {
        self.classes[class_of(status)].inc();
    }

    /// Writes how many there were of each class, as series of a family.
    pub(super) fn encode_classes(
        &self,
        series: &mut MetricEncoder<'_>,
        label: &[(&str, &str)],
    ) -> Result<(), fmt::Error> {
        for (class, count) in CLASSES.iter().zip(&self.classes).filter(|(_, count)| count.get() > 0) {
            let labels: Vec<(&str, &str)> = label.iter().copied().chain([("class", *class)]).collect();
            series.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&count.get(), None)?;
        }
        Ok(())
    }
}

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

fn class_of(status: u16) -> usize {
    CLASSES.len().min(usize::from(status / 100)).saturating_sub(1)
}

/// The requests of all routes, by listener and route.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllAnswers(Arc<Mutex<ByRoute>>);

type ByRoute = BTreeMap<(Arc<str>, Arc<str>), Arc<Answers>>;

impl AllAnswers {
    pub(crate) fn of(&self, listener: &Arc<str>, route: &str) -> Arc<Answers> {
        Arc::clone(lock::lock(&self.0).entry((Arc::clone(listener), route.into())).or_default())
    }

    pub(crate) fn forget(&self, listener: &Arc<str>, route: &str) {
        lock::lock(&self.0).remove(&(Arc::clone(listener), route.into()));
    }
}

impl Collector for AllAnswers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A request of a new route does not wait until all of this is written.
        let routes = lock::lock(&self.0).clone();
        let help = "Requests that were answered, by class of status";
        let mut series = encoder.encode_descriptor("causeway_requests", help, None, MetricType::Counter)?;
        for ((listener, route), answers) in &routes {
            answers.encode_classes(&mut series, &[("listener", listener), ("route", route)])?;
        }
        let help = "How long requests took";
        let mut series = encoder.encode_descriptor(
            "causeway_request",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for ((listener, route), answers) in routes.iter().filter(|(_, answers)| answers.times.are_known()) {
            let labels = [("listener", &**listener), ("route", &**route)];
            answers.times.encode(&mut series, &labels)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn registered() -> (AllAnswers, Registry) {
        let (all, mut registry) = (AllAnswers::default(), Registry::default());
        registry.register_collector(Box::new(all.clone()));
        (all, registry)
    }

    fn lines_of(registry: &Registry, route: &str) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        let label = format!("route=\"{route}\"");
        text.lines().filter(|line| line.contains(&label)).map(str::to_owned).collect()
    }

    #[test]
    fn a_route_that_is_forgotten_is_in_neither_family() {
        let (all, registry) = registered();
        let listener = Arc::from("web");
        for route in ["gone", "kept"] {
            all.of(&listener, route).count(200, 3);
        }
        for route in ["gone", "kept"] {
            let lines = lines_of(&registry, route);
            for family in ["causeway_requests_total{", "causeway_request_seconds_bucket{"] {
                assert!(lines.iter().any(|line| line.starts_with(family)), "{family} in {lines:?}");
            }
        }
        all.forget(&listener, "gone");
        assert_eq!(lines_of(&registry, "gone"), Vec::<String>::new());
        assert!(!lines_of(&registry, "kept").is_empty());
    }

    /// Looks at each piece that is written whether a request could be counted meanwhile.
    struct Watched<'a> {
        all: &'a AllAnswers,
        pieces: usize,
    }

    impl fmt::Write for Watched<'_> {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            assert!(self.all.0.try_lock().is_ok(), "a request of a new route would wait");
            self.pieces += 1;
            Ok(())
        }
    }

    #[test]
    fn no_request_waits_while_all_is_written() {
        let (all, registry) = registered();
        all.of(&Arc::from("web"), "all").count(200, 3);
        let mut watched = Watched { all: &all, pieces: 0 };
        encode(&mut watched, &registry).unwrap();
        assert!(watched.pieces > 10);
    }
}
