//! How long requests took, by route and by cluster. Counted without a lock, and written when somebody asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use causeway_base::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Milliseconds.
const BOUNDS: [u64; 13] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];

/// The times of one route, or of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Times {
    counts: [AtomicU64; BOUNDS.len() + 1],
    millis: AtomicU64,
}

impl Times {
    pub(crate) fn count(&self, millis: u64) {
        let place = BOUNDS.partition_point(|bound| *bound < millis);
        self.counts[place].fetch_add(1, Relaxed);
        self.millis.fetch_add(millis, Relaxed);
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

/// The times of all routes, by listener and route.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllTimes(Arc<Mutex<ByRoute>>);

type ByRoute = BTreeMap<(Arc<str>, Box<str>), Arc<Times>>;

impl AllTimes {
    pub(crate) fn of(&self, listener: &Arc<str>, route: &str) -> Arc<Times> {
        Arc::clone(lock::lock(&self.0).entry((Arc::clone(listener), route.into())).or_default())
    }

    pub(crate) fn forget(&self, listener: &Arc<str>, route: &str) {
        lock::lock(&self.0).remove(&(Arc::clone(listener), route.into()));
    }
}

impl Collector for AllTimes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How long requests took";
        let mut series = encoder.encode_descriptor(
            "causeway_request",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for ((listener, route), times) in lock::lock(&self.0).iter() {
            let labels = [("listener", &**listener), ("route", &**route)];
            times.encode(&mut series, &labels)?;
        }
        Ok(())
    }
}
