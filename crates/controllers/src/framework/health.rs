//! What `/healthz` and `/readyz` say about the operator; the binary serves them. Ready means: this replica leads and
//! its caches are filled, or it stands by for another one that leads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A reconcile that takes longer hangs: every request it makes ends long before that.
const LONGEST_RECONCILE: Duration = Duration::from_mins(10);

/// What the operator is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It has not yet learnt who leads.
    #[default]
    Starting,
    /// Another replica leads.
    StandingBy,
    /// Its controllers run.
    Leading,
    /// It was told to stop, or cannot go on.
    Stopped,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// By their names, and by their namespaces where each has its own.
    controllers: BTreeMap<(&'static str, Option<Arc<str>>), Caches>,
    /// What this operator does not do, and why.
    off: Vec<String>,
    /// Reconciles under way, by a number of their own: whose, and since when.
    under_way: BTreeMap<u64, (&'static str, Instant)>,
    counted: u64,
}

/// How far a controller's caches are.
#[derive(Debug, Default)]
struct Caches {
    are_filled: bool,
    /// Kinds of ours that the cluster does not know.
    undefined: BTreeSet<String>,
}

/// A reconcile under way, until it is dropped.
pub(crate) struct UnderWay {
    health: Health,
    number: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.health.lock().under_way.remove(&self.number);
    }
}

/// The operator's health; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    /// Whose word this is, where each namespace has its own controllers.
    namespace: Option<Arc<str>>,
}

impl Health {
    /// The same, for the controllers of one namespace.
    pub(crate) fn within(&self, namespace: &str) -> Self {
        Self { state: self.state.clone(), namespace: Some(namespace.into()) }
    }

    /// What this operator does not do by its settings, and why.
    pub fn off(&self) -> Vec<String> {
        self.lock().off.clone()
    }

    pub(crate) fn switch_off(&self, what: Vec<String>) {
        self.lock().off = what;
    }

    /// What the operator is doing.
    pub fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// What a restart would cure: the operator has stopped, or a reconcile hangs. Nothing when it lives.
    pub fn dead(&self) -> Vec<String> {
        let state = self.lock();
        if state.phase == Phase::Stopped {
            return vec!["the operator has stopped".to_owned()];
        }
        let hanging = state.under_way.values().filter(|(_, since)| since.elapsed() > LONGEST_RECONCILE);
        hanging
            .map(|(name, since)| {
                format!("a reconcile of controller {name} hangs since {} s", since.elapsed().as_secs())
            })
            .collect()
    }

    /// Takes note of a reconcile for as long as the value lives.
    pub(crate) fn reconciling(&self, controller: &'static str) -> UnderWay {
        let mut state = self.lock();
        state.counted += 1;
        let number = state.counted;
        state.under_way.insert(number, (controller, Instant::now()));
        UnderWay { health: self.clone(), number }
    }

    /// What is missing before the operator can do its work; nothing when it is ready.
    pub fn missing(&self) -> Vec<String> {
        let state = self.lock();
        match state.phase {
            Phase::Starting => vec!["leader election has not been decided".to_owned()],
            Phase::StandingBy => Vec::new(),
            Phase::Stopped => vec!["the operator has stopped".to_owned()],
            Phase::Leading => {
                let unfilled = state.controllers.iter().filter(|(_, caches)| !caches.are_filled);
                let (unknown, slow): (Vec<_>, Vec<_>) =
                    unfilled.partition(|(_, caches)| !caches.undefined.is_empty());
                let kinds: BTreeSet<_> = unknown.iter().flat_map(|(_, caches)| &caches.undefined).collect();
                let unknown = kinds.into_iter().map(|plural| {
                    format!("this cluster does not know {plural}: apply Causeway's definitions (deploy/crds)")
                });
                let slow = slow.iter().map(|((name, namespace), _)| {
                    let place =
                        namespace.as_ref().map(|name| format!(" of namespace {name}")).unwrap_or_default();
                    format!("the caches of controller {name}{place} are not filled")
                });
                unknown.chain(slow).collect()
            }
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        if phase != Phase::Leading {
            state.controllers.clear();
        }
    }

    pub(crate) fn synced(&self, controller: &'static str, synced: bool) {
        let caches = Caches { are_filled: synced, undefined: BTreeSet::new() };
        self.lock().controllers.insert((controller, self.namespace.clone()), caches);
    }

    /// Takes note that the cluster does not know a kind that this controller watches; true if that is new.
    pub(crate) fn undefined(&self, controller: &'static str, plural: &str) -> bool {
        let mut state = self.lock();
        let of = (controller, self.namespace.clone());
        state.controllers.entry(of).or_default().undefined.insert(plural.to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_hangs_is_dead() {
        let health = Health::default();
        health.enter(Phase::Leading);
        let (quick, slow) = (health.reconciling("infra"), health.reconciling("proxy"));
        tokio::time::advance(LONGEST_RECONCILE).await;
        assert!(health.dead().is_empty());
        drop(quick);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(health.dead(), ["a reconcile of controller proxy hangs since 605 s"]);
        drop(slow);
        assert!(health.dead().is_empty());
    }

    #[test]
    fn each_namespace_has_caches_of_its_own() {
        let health = Health::default();
        health.enter(Phase::Leading);
        let (one, other) = (health.within("a"), health.within("b"));
        one.synced("infra", false);
        other.synced("infra", true);
        assert_eq!(health.missing(), ["the caches of controller infra of namespace a are not filled"]);
        one.synced("infra", true);
        assert!(health.missing().is_empty());
        health.switch_off(vec!["gateways".to_owned()]);
        assert_eq!(other.off(), ["gateways"]);
    }

    #[test]
    fn is_ready_when_leading_with_filled_caches_or_standing_by() {
        let health = Health::default();
        assert_eq!(health.missing().len(), 1);
        health.enter(Phase::StandingBy);
        assert!(health.missing().is_empty());
        health.enter(Phase::Leading);
        health.synced("infra", false);
        assert_eq!(health.missing(), ["the caches of controller infra are not filled"]);
        assert!(health.undefined("infra", "infras") && !health.undefined("infra", "infras"));
        assert!(health.missing()[0].contains("does not know infras: apply"), "{:?}", health.missing());
        health.synced("infra", true);
        assert!(health.missing().is_empty() && health.dead().is_empty());
        health.enter(Phase::Stopped);
        assert!(!health.dead().is_empty() && !health.missing().is_empty());
    }
}
