//! What `/healthz` and `/readyz` say about the operator; the binary serves them. Ready means: this replica leads and
//! its caches are filled, or it stands by for another one that leads.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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
    controllers: BTreeMap<&'static str, bool>,
}

/// The operator's health; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<State>>);

impl Health {
    /// What the operator is doing.
    pub fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// False once the operator has stopped: a restart is the cure.
    pub fn is_live(&self) -> bool {
        self.phase() != Phase::Stopped
    }

    /// What is missing before the operator can do its work; nothing when it is ready.
    pub fn missing(&self) -> Vec<String> {
        let state = self.lock();
        match state.phase {
            Phase::Starting => vec!["leader election has not been decided".to_owned()],
            Phase::StandingBy => Vec::new(),
            Phase::Stopped => vec!["the operator has stopped".to_owned()],
            Phase::Leading => {
                let unfilled = state.controllers.iter().filter(|(_, synced)| !**synced);
                unfilled.map(|(name, _)| format!("the caches of controller {name} are not filled")).collect()
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
        self.lock().controllers.insert(controller, synced);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_when_leading_with_filled_caches_or_standing_by() {
        let health = Health::default();
        assert_eq!(health.missing().len(), 1);
        health.enter(Phase::StandingBy);
        assert!(health.missing().is_empty());
        health.enter(Phase::Leading);
        health.synced("infra", false);
        assert_eq!(health.missing(), ["the caches of controller infra are not filled"]);
        health.synced("infra", true);
        assert!(health.missing().is_empty() && health.is_live());
        health.enter(Phase::Stopped);
        assert!(!health.is_live() && !health.missing().is_empty());
    }
}
