//! What a pod of any kind says of how it stands: whether it does what is asked for, and why not.

use std::sync::Arc;

use crate::followed::{Followed, State};
use crate::runner::Snapshot;

/// How a pod stands.
pub(crate) struct Standing {
    /// It does what the newest generation asks for.
    pub(crate) serving: bool,
    /// Why it stays with an earlier configuration.
    pub(crate) refused: Option<String>,
    /// What else keeps it from its work.
    pub(crate) trouble: Option<String>,
}

impl Standing {
    /// By what is wanted, and how that runs.
    pub(crate) fn of<F: Followed>(state: &State<F>, carried: &Snapshot<F::Plan>) -> Self {
        let runs = match (&state.plan, &carried.plan) {
            (Some(wanted), Some(runs)) => Arc::ptr_eq(wanted, runs) || wanted == runs,
            _ => false,
        };
        let refused = state.refused.clone().or_else(|| carried.refused.clone());
        let serving = runs && refused.is_none() && carried.trouble.is_none();
        let trouble: Vec<String> =
            [&state.trouble, &carried.trouble].into_iter().filter_map(Clone::clone).collect();
        Self { serving, refused, trouble: (!trouble.is_empty()).then(|| trouble.join("; ")) }
    }
}
