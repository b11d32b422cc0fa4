//! A cluster at run time. The object lives as long as the cluster's name is in the plan, so that turns, ejections
//! and counters survive a new plan; what the plan says of it is swapped by pointer.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::ClusterMetrics;
use crate::{balance, clock};

/// All clusters by name, those too that left the plan and still have time to drain.
pub type Clusters = Arc<RwLock<HashMap<String, Arc<Cluster>>>>;

pub struct Cluster {
    pub name: String,
    pub metrics: ClusterMetrics,
    state: RwLock<Arc<State>>,
    turn: AtomicUsize,
}

/// What the newest plan says.
pub struct State {
    pub plan: causeway_ir::Cluster,
    pub members: Vec<Member>,
}

/// An endpoint and what the plan says of it.
#[derive(Clone)]
pub struct Member {
    pub endpoint: Arc<Endpoint>,
    pub weight: u32,
    pub standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Ready,
    /// Going away but still answering: used when nothing is ready.
    Leaving,
    Down,
}

/// What is known of one endpoint; shared by all cores and kept while its address stays in the cluster.
pub struct Endpoint {
    pub address: SocketAddr,
    pub active: Gauge,
    pub total: Counter,
    failures: AtomicU32,
    resets: AtomicU32,
    rested_until: AtomicU64,
    healthy: AtomicBool,
    /// When it began, or began again, to take connections.
    pub since: AtomicU64,
}

impl Endpoint {
    fn new(address: SocketAddr, since: u64) -> Self {
        Self {
            address,
            active: Gauge::default(),
            total: Counter::default(),
            failures: AtomicU32::new(0),
            resets: AtomicU32::new(0),
            rested_until: AtomicU64::new(0),
            healthy: AtomicBool::new(true),
            since: AtomicU64::new(since),
        }
    }

    pub fn is_ejected(&self, now: u64) -> bool {
        self.rested_until.load(Relaxed) > now
    }

    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Relaxed)
    }

    /// Takes the word of an active check.
    pub fn set_healthy(&self, healthy: bool) {
        if !self.healthy.swap(healthy, Relaxed) && healthy {
            self.since.store(clock::now(), Relaxed);
        }
    }

    /// It took a connection.
    pub fn succeeded(&self) {
        clear(&self.failures);
    }

    /// It said something.
    pub fn answered(&self) {
        clear(&self.resets);
    }
}

impl Cluster {
    pub fn new(plan: &causeway_ir::Cluster) -> Self {
        Self {
            name: plan.name.clone(),
            metrics: ClusterMetrics::default(),
            // A cluster that starts has no endpoint to warm up beside others: all get their full share.
            state: RwLock::new(Arc::new(State::new(plan, &[], 0))),
            turn: AtomicUsize::new(0),
        }
    }

    pub fn state(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes what a new plan says; endpoints that stay keep what is known of them.
    pub fn update(&self, plan: &causeway_ir::Cluster) {
        let old = self.state();
        if old.plan != *plan {
            let new = Arc::new(State::new(plan, &old.members, clock::now()));
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }

    /// The endpoint for a client, none of those that were tried.
    pub fn pick(&self, state: &State, client: IpAddr, tried: &[SocketAddr]) -> Option<Arc<Endpoint>> {
        let turn = self.turn.fetch_add(1, Relaxed);
        balance::pick(state, turn, client, tried, clock::now()).cloned()
    }

    /// Counts an attempt to connect that failed.
    pub fn failed(&self, state: &State, endpoint: &Endpoint) {
        self.metrics.connect_failures.inc();
        self.blame(state, endpoint, &endpoint.failures, state.plan.ejection.consecutive_failures);
    }

    /// Counts a connection that the endpoint took and reset before it said a word.
    pub fn reset_early(&self, state: &State, endpoint: &Endpoint) {
        self.metrics.early_resets.inc();
        self.blame(state, endpoint, &endpoint.resets, state.plan.ejection.consecutive_resets);
    }

    /// Rests the endpoint if this failure is one too many in a row.
    fn blame(&self, state: &State, endpoint: &Endpoint, failures: &AtomicU32, allowed: u32) {
        let count = failures.fetch_add(1, Relaxed) + 1;
        let rule = &state.plan.ejection;
        if allowed == 0 || count < allowed {
            return;
        }
        failures.store(0, Relaxed);
        let until = clock::now() + millis(rule.time);
        if endpoint.rested_until.swap(until, Relaxed) < clock::now() {
            self.metrics.ejections.inc();
            endpoint.since.store(until, Relaxed);
            tracing::info!(cluster = self.name, endpoint = %endpoint.address, "endpoint rested for failing");
        }
    }
}

fn clear(failures: &AtomicU32) {
    // Most of the time it is zero already: do not take the cache line from the other cores for nothing.
    if failures.load(Relaxed) != 0 {
        failures.store(0, Relaxed);
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

impl State {
    fn new(plan: &causeway_ir::Cluster, old: &[Member], now: u64) -> Self {
        let known: HashMap<SocketAddr, &Arc<Endpoint>> =
            old.iter().map(|member| (member.endpoint.address, &member.endpoint)).collect();
        let member = |endpoint: &causeway_ir::Endpoint| {
            let address = endpoint.address.parse().ok()?;
            let standing = match endpoint {
                e if e.ready && !e.terminating => Standing::Ready,
                e if e.serving => Standing::Leaving,
                _ => Standing::Down,
            };
            let endpoint_state =
                known.get(&address).map_or_else(|| Arc::new(Endpoint::new(address, now)), |e| Arc::clone(e));
            Some(Member { endpoint: endpoint_state, weight: endpoint.weight, standing })
        };
        Self { members: plan.endpoints.iter().filter_map(member).collect(), plan: plan.clone() }
    }
}
