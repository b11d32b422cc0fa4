//! The counters of an engine. What the connection path touches is looked up once, when a plan is compiled, and
//! then kept beside the listener, route or cluster. Clusters keep their own and are asked when somebody looks, so
//! that thousands of them cost nothing while nobody does.

mod clusters;
mod inline;
mod times;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::close_reason::CloseReason;
use crate::cluster::Clusters;
use crate::tls::Expiry;
use clusters::ClusterSeries;
pub(crate) use inline::{Active, Counter as InlineCounter, HasActive, Held};
use times::{AllAnswers, Answers};

type Labels = Vec<(&'static str, String)>;

/// What is counted by route.
#[derive(Default)]
struct ByRoute {
    closed: Family<Labels, Counter>,
    answers: AllAnswers,
}

/// All families.
#[derive(Default)]
pub(crate) struct Metrics {
    listener_active: Family<Labels, Gauge>,
    listener_total: Family<Labels, Counter>,
    by_route: Arc<ByRoute>,
    /// Connections at this moment, those in handshake too.
    pub(crate) active: Gauge,
    /// Connections that are over, however they ended; not shown.
    pub(crate) ended: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) plans_applied: Counter,
    pub(crate) plans_refused: Counter,
    pub(crate) log_lines_lost: Counter,
    /// Those in use, and when they expire.
    pub(crate) certificates: Expiry,
}

impl Metrics {
    pub(crate) fn register(&self, clusters: &Clusters, registry: &mut Registry) {
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
        r.register(
            "causeway_connections_closed",
            "Connections that ended, by reason",
            self.by_route.closed.clone(),
        );
        r.register_collector(Box::new(self.by_route.answers.clone()));
        r.register_collector(Box::new(self.certificates.clone()));
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

    pub(crate) fn listener(&self, name: &Arc<str>, address: &str) -> ListenerMetrics {
        let labels = vec![("envoy_listener_address", address.to_owned())];
        ListenerMetrics {
            active: self.listener_active.get_or_create_owned(&labels),
            total: self.listener_total.get_or_create_owned(&labels),
            closed: Arc::new(self.closes(name, "")),
        }
    }

    pub(crate) fn closes(&self, listener: &Arc<str>, route: &str) -> Closes {
        Closes {
            forgotten: AtomicBool::new(false),
            answers: OnceLock::new(),
            counters: OnceLock::new(),
            by_route: Arc::clone(&self.by_route),
            listener: Arc::clone(listener),
            route: route.into(),
        }
    }

    pub(crate) fn forget_listener(&self, address: &str) {
        let labels = vec![("envoy_listener_address", address.to_owned())];
        self.listener_active.remove(&labels);
        self.listener_total.remove(&labels);
    }
}

#[derive(Clone)]
pub(crate) struct ListenerMetrics {
    pub(crate) active: Gauge,
    pub(crate) total: Counter,
    /// Of connections that met no route.
    pub(crate) closed: Arc<Closes>,
}

/// What a cluster counts.
#[derive(Debug, Default)]
pub(crate) struct ClusterMetrics {
    pub(crate) active: Active,
    pub(crate) total: InlineCounter,
    pub(crate) connect_failures: InlineCounter,
    /// Attempts to have a request answered.
    pub(crate) requests: InlineCounter,
    /// Connections that the endpoint reset before it said a word.
    pub(crate) early_resets: InlineCounter,
    /// Connections on which the endpoint never said a word until they idled out.
    pub(crate) unanswered: InlineCounter,
    pub(crate) ejections: InlineCounter,
    pub(crate) bytes_up: InlineCounter,
    pub(crate) bytes_down: InlineCounter,
    /// Of clusters that get requests.
    answers: OnceLock<Box<Answers>>,
}

impl ClusterMetrics {
    /// Counts a request that went there, by the status that its client got and the milliseconds it took.
    pub(crate) fn count_request(&self, status: u16, millis: u64) {
        self.answers.get_or_init(Box::default).count(status, millis);
    }
}

/// Ends of connections and requests of one route, by reason or class of status; each shows once it has happened.
#[repr(C)]
pub(crate) struct Closes {
    forgotten: AtomicBool,
    answers: OnceLock<Arc<Answers>>,
    counters: OnceLock<Box<[OnceLock<Counter>; CloseReason::ALL.len()]>>,
    by_route: Arc<ByRoute>,
    listener: Arc<str>,
    route: Box<str>,
}

impl Closes {
    pub(crate) fn count(&self, reason: CloseReason) {
        // The last connections of a removed route count for its listener: its own series are not shown again.
        if self.forgotten.load(Relaxed) {
            self.by_route.closed.get_or_create_owned(&labels(&self.listener, "", reason)).inc();
            return;
        }
        let create =
            || self.by_route.closed.get_or_create_owned(&labels(&self.listener, &self.route, reason));
        self.counters.get_or_init(Box::default)[reason as usize].get_or_init(create).inc();
    }

    /// Counts a request by the status of its answer and the milliseconds it took.
    pub(crate) fn count_request(&self, status: u16, millis: u64) {
        if self.forgotten.load(Relaxed) {
            self.by_route.answers.of(&self.listener, "").count_status(status);
            return;
        }
        let answers = self.answers.get_or_init(|| self.by_route.answers.of(&self.listener, &self.route));
        answers.count(status, millis);
    }

    /// Takes the series out of the exposition.
    pub(crate) fn forget(&self) {
        self.forgotten.store(true, Relaxed);
        if self.answers.get().is_some() {
            self.by_route.answers.forget(&self.listener, &self.route);
        }
        let Some(counters) = self.counters.get() else { return };
        for reason in CloseReason::ALL.into_iter().filter(|reason| counters[*reason as usize].get().is_some())
        {
            self.by_route.closed.remove(&labels(&self.listener, &self.route, reason));
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
