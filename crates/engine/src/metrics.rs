//! The counters of an engine. What the connection path touches is looked up once, when a plan is compiled, and
//! then kept beside the listener, route or cluster. Clusters keep their own and are asked when somebody looks, so
//! that thousands of them cost nothing while nobody does.

mod clusters;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::close_reason::CloseReason;
use crate::cluster::Clusters;
use clusters::ClusterSeries;

type Labels = Vec<(&'static str, String)>;

/// All families.
#[derive(Default)]
pub struct Metrics {
    listener_active: Family<Labels, Gauge>,
    listener_total: Family<Labels, Counter>,
    closed: Family<Labels, Counter>,
    /// Connections at this moment, those in handshake too.
    pub active: Gauge,
    /// Connections that are over, however they ended; not shown.
    pub ended: Counter,
    pub accept_errors: Counter,
    pub plans_applied: Counter,
    pub plans_refused: Counter,
    pub log_lines_lost: Counter,
}

impl Metrics {
    pub fn register(&self, clusters: &Clusters, registry: &mut Registry) {
        let r = registry;
        r.register(
            "envoy_listener_downstream_cx_active",
            "Connections of a listener",
            self.listener_active.clone(),
        );
        r.register(
            "envoy_listener_downstream_cx",
            "Connections that a listener accepted",
            self.listener_total.clone(),
        );
        r.register_collector(Box::new(ClusterSeries(Arc::clone(clusters))));
        r.register("causeway_connections_closed", "Connections that ended, by reason", self.closed.clone());
        r.register("causeway_connections_active", "Connections at this moment", self.active.clone());
        r.register("causeway_accept_errors", "Failures to accept", self.accept_errors.clone());
        r.register("causeway_plans_applied", "Plans taken into use", self.plans_applied.clone());
        r.register("causeway_plans_refused", "Plans refused as invalid", self.plans_refused.clone());
        r.register(
            "causeway_access_log_lines_lost",
            "Lines that the log could not take",
            self.log_lines_lost.clone(),
        );
    }

    pub fn listener(&self, name: &Arc<str>, address: &str) -> ListenerMetrics {
        let labels = vec![("envoy_listener_address", address.to_owned())];
        ListenerMetrics {
            active: self.listener_active.get_or_create_owned(&labels),
            total: self.listener_total.get_or_create_owned(&labels),
            closed: Arc::new(self.closes(name, "")),
        }
    }

    pub fn closes(&self, listener: &Arc<str>, route: &str) -> Closes {
        Closes {
            family: self.closed.clone(),
            listener: Arc::clone(listener),
            route: route.into(),
            counters: OnceLock::new(),
            forgotten: AtomicBool::new(false),
        }
    }

    pub fn forget_listener(&self, address: &str) {
        let labels = vec![("envoy_listener_address", address.to_owned())];
        self.listener_active.remove(&labels);
        self.listener_total.remove(&labels);
    }
}

#[derive(Clone)]
pub struct ListenerMetrics {
    pub active: Gauge,
    pub total: Counter,
    /// Of connections that met no route.
    pub closed: Arc<Closes>,
}

/// What a cluster counts.
#[derive(Default)]
pub struct ClusterMetrics {
    pub active: Gauge,
    pub total: Counter,
    pub connect_failures: Counter,
    /// Connections that the endpoint reset before it said a word.
    pub early_resets: Counter,
    /// Connections on which the endpoint never said a word until they idled out.
    pub unanswered: Counter,
    pub ejections: Counter,
    pub bytes_up: Counter,
    pub bytes_down: Counter,
}

/// Ends of connections of one route, by reason; a reason shows once it has happened.
pub struct Closes {
    family: Family<Labels, Counter>,
    listener: Arc<str>,
    route: Box<str>,
    counters: OnceLock<Box<[OnceLock<Counter>; CloseReason::ALL.len()]>>,
    forgotten: AtomicBool,
}

impl Closes {
    pub fn count(&self, reason: CloseReason) {
        // The last connections of a removed route count for its listener: its own series are not shown again.
        if self.forgotten.load(Relaxed) {
            self.family.get_or_create_owned(&labels(&self.listener, "", reason)).inc();
            return;
        }
        let create = || self.family.get_or_create_owned(&labels(&self.listener, &self.route, reason));
        self.counters.get_or_init(Box::default)[reason as usize].get_or_init(create).inc();
    }

    /// Takes the series out of the exposition.
    pub fn forget(&self) {
        self.forgotten.store(true, Relaxed);
        let Some(counters) = self.counters.get() else { return };
        for reason in CloseReason::ALL.into_iter().filter(|reason| counters[*reason as usize].get().is_some())
        {
            self.family.remove(&labels(&self.listener, &self.route, reason));
        }
    }
}

fn labels(listener: &str, route: &str, reason: CloseReason) -> Labels {
    vec![
        ("listener", listener.to_owned()),
        ("route", route.to_owned()),
        ("reason", reason.as_str().to_owned()),
    ]
}

/// A gauge that goes down again when this is dropped.
pub struct Held(Gauge);

impl Held {
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }

    /// Unless the gauge has reached the limit.
    pub fn within(gauge: &Gauge, limit: Option<u32>) -> Option<Self> {
        let before = gauge.inc();
        let held = Self(gauge.clone());
        limit.is_none_or(|limit| before < i64::from(limit)).then_some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}
