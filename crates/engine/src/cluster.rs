//! A cluster at run time. The object lives as long as the cluster's name is in the plan, so that turns, ejections
//! and counters survive a new plan; what the plan says of it is swapped by pointer.

mod endpoint;
mod settings;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use causeway_base::lock;
use causeway_ir::{Address, Name};

use crate::metrics::{Active, ClusterMetrics, HasActive};
use crate::{balance, clock, tls};
pub(crate) use endpoint::Endpoint;
pub(crate) use settings::{Settings, SettingsPool};

/// All clusters by name, those too that left the plan and still have time to drain.
pub(crate) type Clusters = Arc<RwLock<HashMap<Name, Arc<Cluster>>>>;

pub(crate) struct Cluster {
    pub(crate) name: Name,
    pub(crate) metrics: ClusterMetrics,
    turn: AtomicUsize,
    state: RwLock<Arc<State>>,
    /// TLS to its endpoints; none if they have none, or if what it needs is missing.
    tls: RwLock<Option<Arc<tls::Upstream>>>,
    named_by_request: AtomicBool,
}

/// What the newest plan says.
pub(crate) struct State {
    pub(crate) settings: Arc<Settings>,
    pub(crate) members: Box<[Member]>,
}

/// An endpoint and what the plan says of it.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) weight: u32,
    pub(crate) standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Ready,
    /// Going away but still answering: used when nothing is ready.
    Leaving,
    Down,
}

impl HasActive for Cluster {
    fn active(&self) -> &Active {
        &self.metrics.active
    }
}

impl Cluster {
    pub(crate) fn new(plan: &causeway_ir::Cluster, pool: &mut SettingsPool) -> Self {
        // A cluster that starts has no endpoint to warm up beside others: all get their full share.
        let state = State::new(plan, pool.of(plan), &[], 0);
        Self {
            name: plan.name.clone(),
            metrics: ClusterMetrics::default(),
            turn: AtomicUsize::new(0),
            state: RwLock::new(Arc::new(state)),
            tls: RwLock::new(None),
            named_by_request: AtomicBool::new(false),
        }
    }

    /// TLS to its endpoints, if there is all that it needs.
    pub(crate) fn tls(&self) -> Option<Arc<tls::Upstream>> {
        lock::read(&self.tls).clone()
    }

    /// Whether the name that endpoints must show in TLS is that of the request.
    pub(crate) fn is_named_by_request(&self) -> bool {
        self.named_by_request.load(Relaxed)
    }

    /// Takes other TLS into use. Connections that were made with the old one are used for nothing new: endpoints are known
    /// anew.
    pub(crate) fn secure(&self, tls: Option<Arc<tls::Upstream>>) {
        let named = tls.as_ref().is_some_and(|tls| tls.is_named_by_request());
        *lock::write(&self.tls) = tls;
        self.named_by_request.store(named, Relaxed);
        let old = self.state();
        let anew = |member: &Member| {
            let endpoint = Endpoint::new(member.endpoint.address.clone(), 0);
            endpoint.set_healthy(member.endpoint.is_healthy());
            endpoint.set_serving(member.standing != Standing::Down);
            Member { endpoint: Arc::new(endpoint), ..member.clone() }
        };
        let members = old.members.iter().map(anew).collect();
        *lock::write(&self.state) = Arc::new(State { settings: Arc::clone(&old.settings), members });
        old.members.iter().for_each(|member| member.endpoint.set_serving(false));
    }

    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&lock::read(&self.state))
    }

    /// Takes what a new plan says; endpoints that stay keep what is known of them, unless TLS comes or goes: what was
    /// connected without it is used for nothing that must have it.
    pub(crate) fn update(&self, plan: &causeway_ir::Cluster, pool: &mut SettingsPool) {
        let old = self.state();
        let settings = pool.of(plan);
        let stays = settings.is_secured == old.settings.is_secured;
        let known = if stays { &old.members[..] } else { &[] };
        let new = Arc::new(State::new(plan, settings, known, clock::now()));
        let kept: HashSet<*const Endpoint> = new.members.iter().map(|m| Arc::as_ptr(&m.endpoint)).collect();
        for gone in old.members.iter().filter(|member| !kept.contains(&Arc::as_ptr(&member.endpoint))) {
            gone.endpoint.set_serving(false);
        }
        for member in &new.members {
            member.endpoint.set_serving(member.standing != Standing::Down);
        }
        *lock::write(&self.state) = new;
    }

    /// The endpoint for a client, none of those that were tried.
    pub(crate) fn pick(
        &self,
        state: &State,
        client: IpAddr,
        tried: &[Arc<Endpoint>],
        now: u64,
    ) -> Option<Arc<Endpoint>> {
        let turn = self.turn.fetch_add(1, Relaxed);
        balance::pick(state, turn, client, tried, now).cloned()
    }

    /// Whether it has an endpoint that takes traffic and is not known to fail.
    pub(crate) fn is_usable(&self, now: u64) -> bool {
        let fit = |m: &Member| {
            m.standing != Standing::Down && m.endpoint.is_healthy() && !m.endpoint.is_ejected(now)
        };
        self.state().members.iter().any(fit)
    }

    /// Counts an attempt to connect that failed, for reasons of the endpoint or of this host.
    pub(crate) fn connect_failed(&self, state: &State, endpoint: &Endpoint, endpoint_to_blame: bool) {
        self.metrics.connect_failures.inc();
        if endpoint_to_blame {
            let allowed = state.settings.ejection.consecutive_failures;
            self.blame(state, endpoint, &endpoint.failures, allowed);
        }
    }

    /// Counts a connection that the endpoint took and reset before it said a word.
    pub(crate) fn reset_early(&self, state: &State, endpoint: &Endpoint) {
        self.metrics.early_resets.inc();
        self.blame(state, endpoint, &endpoint.resets, state.settings.ejection.consecutive_resets);
    }

    /// Rests the endpoint if this failure is one too many in a row.
    fn blame(&self, state: &State, endpoint: &Endpoint, failures: &AtomicU32, allowed: u32) {
        let count = failures.fetch_add(1, Relaxed) + 1;
        if allowed == 0 || count < allowed {
            return;
        }
        failures.store(0, Relaxed);
        let now = clock::now();
        let until = now + state.settings.ejection.time.as_millis() as u64;
        if endpoint.rested_until.swap(until, Relaxed) < now {
            self.metrics.ejections.inc();
            endpoint.since.store(until, Relaxed);
            tracing::info!(cluster = %self.name, endpoint = %endpoint.address, "endpoint rested for failing");
        }
    }
}

impl State {
    fn new(plan: &causeway_ir::Cluster, settings: Arc<Settings>, old: &[Member], now: u64) -> Self {
        let known: HashMap<&Address, &Arc<Endpoint>> =
            old.iter().map(|member| (&member.endpoint.address, &member.endpoint)).collect();
        let member = |planned: &causeway_ir::Endpoint| {
            let standing = match planned {
                e if e.ready && !e.terminating => Standing::Ready,
                e if e.serving => Standing::Leaving,
                _ => Standing::Down,
            };
            let endpoint = match known.get(&planned.address) {
                Some(known) => Arc::clone(known),
                None => Arc::new(Endpoint::new(planned.address.clone(), now)),
            };
            Member { endpoint, weight: planned.weight.get(), standing }
        };
        Self { settings, members: plan.endpoints.iter().map(member).collect() }
    }

    /// Whether an endpoint other than this one takes traffic and is not known to fail.
    pub(crate) fn has_better_than(&self, endpoint: &Endpoint, now: u64) -> bool {
        self.members.iter().any(|m| {
            !std::ptr::eq(Arc::as_ptr(&m.endpoint), endpoint)
                && m.standing != Standing::Down
                && m.endpoint.is_healthy()
                && !m.endpoint.is_ejected(now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_say_the_same_share_it() {
        let mut pool = SettingsPool::default();
        let mut of = |name: &str, retries: u32| {
            let mut plan = causeway_ir::Cluster::new(Name::parse(name).unwrap(), vec![]);
            plan.retries = retries;
            Cluster::new(&plan, &mut pool).state().settings.clone()
        };
        let (a, b, c, d) = (of("a", 1), of("b", 1), of("c", 2), of("d", 1));
        assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&a, &d) && !Arc::ptr_eq(&a, &c));
    }
}
