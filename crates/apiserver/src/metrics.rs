//! What the server counts about itself, under the names that users of Kubernetes know.

use std::sync::Mutex;
use std::time::Duration;

use causeway_base::lock::lock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::store::Store;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    resource: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

/// The server's metrics and the registry they are rendered from.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<VerbLabels, Histogram, fn() -> Histogram>,
    watches: Gauge,
    objects: Family<ResourceLabels, Gauge>,
    /// What others in this process count.
    others: Mutex<Vec<Registry>>,
}

/// Counts a watch for as long as it is open.
pub(crate) struct OpenWatch(Gauge);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        registry.register("apiserver_request", "Requests by verb, resource and code", requests.clone());
        let durations: Family<VerbLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 2.0, 14)));
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to answer; for watches, time to begin",
            durations.clone(),
        );
        let watches: Gauge = Gauge::default();
        registry.register("apiserver_longrunning_requests", "Watches that are open", watches.clone());
        let objects = Family::default();
        registry.register("apiserver_storage_objects", "Stored objects by resource", objects.clone());
        Self { registry, requests, durations, watches, objects, others: Mutex::default() }
    }
}

impl Metrics {
    pub(crate) fn request_done(&self, verb: &str, resource: &str, code: u16, took: Duration) {
        let labels = RequestLabels { verb: verb.to_owned(), resource: resource.to_owned(), code };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&VerbLabels { verb: verb.to_owned() }).observe(took.as_secs_f64());
    }

    /// Serves another registry beside the server's own.
    pub(crate) fn add(&self, registry: Registry) {
        lock(&self.others).push(registry);
    }

    pub(crate) fn watch_opened(&self) -> OpenWatch {
        self.watches.inc();
        OpenWatch(self.watches.clone())
    }

    /// The text that Prometheus scrapes.
    pub(crate) fn render(&self, store: &Store) -> String {
        self.objects.clear();
        for resource in store.populated() {
            let name = crate::error::qualified(&resource.group, &resource.plural);
            let count = store.list(&resource, None).items.len();
            self.objects.get_or_create(&ResourceLabels { resource: name }).set(count as i64);
        }
        let mut text = String::new();
        let others = lock(&self.others);
        for registry in std::iter::once(&self.registry).chain(others.iter()) {
            encode_registry(&mut text, registry).expect("writing to a string can't fail");
        }
        encode_eof(&mut text).expect("writing to a string can't fail");
        text
    }
}
