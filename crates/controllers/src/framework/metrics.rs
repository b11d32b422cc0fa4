//! What the operator counts: reconciles with their time and failures, objects that wait for a retry, and whether this
//! replica leads. Label values are closed sets or controller names, never object names.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use crate::framework::error::Category;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    controller: &'static str,
    category: Category,
}

/// The operator's metrics; clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: Family<Controller, Counter>,
    failures: Family<Failure, Counter>,
    durations: Family<Controller, Histogram, fn() -> Histogram>,
    running: Family<Controller, Gauge>,
    retrying: Family<Controller, Gauge>,
    watch_failures: Family<Controller, Counter>,
    leader: Gauge,
}

impl Metrics {
    /// Registers the metrics; the caller chooses a prefix by handing in a sub-registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reconciles: Family::default(),
            failures: Family::default(),
            // From 1 ms to about 16 s.
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 8))),
            running: Family::default(),
            retrying: Family::default(),
            watch_failures: Family::default(),
            leader: Gauge::default(),
        };
        registry.register("reconciles", "Reconciles that ended, by controller", metrics.reconciles.clone());
        registry.register(
            "reconcile_failures",
            "Reconciles that ended with an error, by controller and category",
            metrics.failures.clone(),
        );
        registry.register_with_unit(
            "reconcile_duration",
            "Time from start to end of a reconcile",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register("reconciles_running", "Reconciles under way", metrics.running.clone());
        registry.register(
            "objects_retrying",
            "Objects that wait for a retry after a failure",
            metrics.retrying.clone(),
        );
        registry.register(
            "watch_failures",
            "Watches that broke and were restarted",
            metrics.watch_failures.clone(),
        );
        registry.register("leader", "1 while this replica leads", metrics.leader.clone());
        metrics
    }

    pub(crate) fn started(&self, controller: &'static str) {
        self.running.get_or_create(&Controller { controller }).inc();
    }

    pub(crate) fn ended(&self, controller: &'static str, took: Duration, failure: Option<Category>) {
        let labels = Controller { controller };
        self.running.get_or_create(&labels).dec();
        self.reconciles.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        if let Some(category) = failure {
            self.failures.get_or_create(&Failure { controller, category }).inc();
        }
    }

    pub(crate) fn retrying(&self, controller: &'static str, objects: usize) {
        self.retrying.get_or_create(&Controller { controller }).set(objects as i64);
    }

    /// The same for one of several that are called the same: by how many it has changed.
    pub(crate) fn retrying_more(&self, controller: &'static str, change: i64) {
        self.retrying.get_or_create(&Controller { controller }).inc_by(change);
    }

    pub(crate) fn watch_failed(&self, controller: &'static str) {
        self.watch_failures.get_or_create(&Controller { controller }).inc();
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn exposes_counts_by_controller_and_category() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(registry.sub_registry_with_prefix("causeway_operator"));
        metrics.started("infra");
        metrics.ended("infra", Duration::from_millis(3), Some(Category::Conflict));
        metrics.started("infra");
        metrics.retrying("infra", 1);
        metrics.leads(true);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "causeway_operator_reconciles_total{controller=\"infra\"} 1",
            "causeway_operator_reconcile_failures_total{controller=\"infra\",category=\"Conflict\"} 1",
            "causeway_operator_reconcile_duration_seconds_count{controller=\"infra\"} 1",
            "causeway_operator_reconciles_running{controller=\"infra\"} 1",
            "causeway_operator_objects_retrying{controller=\"infra\"} 1",
            "causeway_operator_leader 1",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
