//! What is no longer in the plan, and until when it is kept.

use std::collections::HashMap;

use causeway_ir::Name;
use tokio::time::Instant;

use super::changes::ListenerChange;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Leaving {
    Route { listener: Name, route: String },
    Cluster(Name),
}

#[derive(Default)]
pub(super) struct Drains(HashMap<Leaving, Instant>);

impl Drains {
    /// Gives something its time to end, unless that runs already.
    pub(super) fn begin(&mut self, what: Leaving, deadline: Instant) {
        self.0.entry(what).or_insert(deadline);
    }

    /// What came back stays.
    pub(super) fn cancel(&mut self, what: &Leaving) {
        self.0.remove(what);
    }

    /// Gives routes that are no longer in the plan their time to end.
    pub(super) fn follow(&mut self, changes: &[ListenerChange<'_>], deadline: Instant) {
        for change in changes {
            let Some(listener) = change.new.or(change.old) else { continue };
            let of = |route: String| Leaving::Route { listener: listener.name.clone(), route };
            change.gone().for_each(|route| self.begin(of(route), deadline));
            change.came().for_each(|route| self.cancel(&of(route)));
        }
    }

    /// When the next one is over.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Takes out what had its time.
    pub(super) fn over(&mut self, now: Instant) -> Vec<Leaving> {
        self.0.extract_if(|_, deadline| *deadline <= now).map(|(what, _)| what).collect()
    }
}
