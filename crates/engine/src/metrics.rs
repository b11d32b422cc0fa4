//! The counters of an engine. What the connection path touches is looked up once, when a plan is compiled, and
//! then kept beside the listener, route or cluster.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::close_reason::CloseReason;

type Labels = Vec<(&'static str, String)>;

/// All families.
#[derive(Default)]
pub struct Metrics {
    listener_active: Family<Labels, Gauge>,
    listener_total: Family<Labels, Counter>,
    cluster_active: Family<Labels, Gauge>,
    cluster_total: Family<Labels, Counter>,
    connect_failures: Family<Labels, Counter>,
    ejections: Family<Labels, Counter>,
    bytes: Family<Labels, Counter>,
    closed: Family<Labels, Counter>,
    /// Connections at this moment, those in handshake too.
    pub active: Gauge,
    pub accept_errors: Counter,
    pub plans_applied: Counter,
    pub plans_refused: Counter,
    pub log_lines_lost: Counter,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
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
        r.register(
            "envoy_cluster_upstream_cx_active",
            "Connections to a cluster",
            self.cluster_active.clone(),
        );
        r.register("envoy_cluster_upstream_cx", "Connections made to a cluster", self.cluster_total.clone());
        r.register(
            "causeway_connect_failures",
            "Attempts to connect that failed",
            self.connect_failures.clone(),
        );
        r.register("causeway_ejections", "Endpoints rested for failing", self.ejections.clone());
        r.register("causeway_bytes", "Bytes carried", self.bytes.clone());
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

    pub fn listener(&self, name: &str, address: &str) -> ListenerMetrics {
        let labels = vec![("envoy_listener_address", address.to_owned())];
        ListenerMetrics {
            active: self.listener_active.get_or_create_owned(&labels),
            total: self.listener_total.get_or_create_owned(&labels),
            closed: self.closes(name, ""),
        }
    }

    pub fn closes(&self, listener: &str, route: &str) -> Closes {
        Closes {
            family: self.closed.clone(),
            labels: [listener.to_owned(), route.to_owned()],
            counters: Arc::default(),
            forgotten: Arc::default(),
        }
    }

    pub fn cluster(&self, name: &str) -> ClusterMetrics {
        let envoy = vec![("envoy_cluster_name", name.to_owned())];
        let cluster = vec![("cluster", name.to_owned())];
        ClusterMetrics {
            active: self.cluster_active.get_or_create_owned(&envoy),
            total: self.cluster_total.get_or_create_owned(&envoy),
            connect_failures: self.connect_failures.get_or_create_owned(&cluster),
            ejections: self.ejections.get_or_create_owned(&cluster),
            bytes_up: self.bytes.get_or_create_owned(&direction(name, "up")),
            bytes_down: self.bytes.get_or_create_owned(&direction(name, "down")),
        }
    }

    pub fn forget_cluster(&self, name: &str) {
        let envoy = vec![("envoy_cluster_name", name.to_owned())];
        let cluster = vec![("cluster", name.to_owned())];
        self.cluster_active.remove(&envoy);
        self.cluster_total.remove(&envoy);
        self.connect_failures.remove(&cluster);
        self.ejections.remove(&cluster);
        self.bytes.remove(&direction(name, "up"));
        self.bytes.remove(&direction(name, "down"));
    }

    pub fn forget_listener(&self, address: &str) {
        let labels = vec![("envoy_listener_address", address.to_owned())];
        self.listener_active.remove(&labels);
        self.listener_total.remove(&labels);
    }
}

fn direction(cluster: &str, direction: &str) -> Labels {
    vec![("cluster", cluster.to_owned()), ("direction", direction.to_owned())]
}

#[derive(Clone)]
pub struct ListenerMetrics {
    pub active: Gauge,
    pub total: Counter,
    /// Of connections that met no route.
    pub closed: Closes,
}

#[derive(Clone)]
pub struct ClusterMetrics {
    pub active: Gauge,
    pub total: Counter,
    pub connect_failures: Counter,
    pub ejections: Counter,
    pub bytes_up: Counter,
    pub bytes_down: Counter,
}

/// Ends of connections of one route, by reason; a reason shows once it has happened.
#[derive(Clone)]
pub struct Closes {
    family: Family<Labels, Counter>,
    labels: [String; 2],
    counters: Arc<[OnceLock<Counter>; CloseReason::ALL.len()]>,
    forgotten: Arc<AtomicBool>,
}

impl Closes {
    pub fn count(&self, reason: CloseReason) {
        // The last connections of a removed route count for its listener: its own series are not shown again.
        if self.forgotten.load(Relaxed) {
            let [listener, _] = &self.labels;
            self.family.get_or_create_owned(&labels(listener, "", reason)).inc();
            return;
        }
        let [listener, route] = &self.labels;
        let create = || self.family.get_or_create_owned(&labels(listener, route, reason));
        self.counters[reason as usize].get_or_init(create).inc();
    }

    /// Takes the series out of the exposition.
    pub fn forget(&self) {
        self.forgotten.store(true, Relaxed);
        let [listener, route] = &self.labels;
        for reason in CloseReason::ALL {
            self.family.remove(&labels(listener, route, reason));
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
