//! What is changed in one pass over an object and what has to wait.

use causeway_api::UpdatePolicy;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Resource, ResourceExt};

use super::{
    Fleet,
    image_check::{self, Checks},
    pace::Pace,
    rollout::{self, Rollout},
    update::{Waiting, updates},
};

/// What is changed in this pass and what is not.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) rollout: Rollout,
    pub(crate) checks: Checks,
    /// Why what the operator brings is not in every pod yet.
    pub(crate) waiting: Option<Waiting>,
}

impl Step {
    /// Decides for the Deployments that an object should have.
    pub(crate) fn decide<K>(
        object: &K,
        policy: UpdatePolicy,
        desired: &[Deployment],
        observed: &impl Fleet,
        pace: &Pace<K>,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        let mut step = Self { rollout: rollout::rollout(desired, observed), ..Self::default() };
        let updates = updates(desired, observed);
        if updates.is_empty() {
            if rollout::is_through(desired, observed) {
                pace.end(object);
            }
        } else if policy == UpdatePolicy::Manual {
            pace.end(object);
            step.waiting = Some(Waiting::ForOwner);
        } else if let Err(first) = pace.turn(object) {
            step.waiting = Some(Waiting::ForTurn(first));
        }
        let held = &mut step.rollout.held;
        if step.waiting.is_some() {
            held.extend(updates.iter().filter(|name| !held.contains(name)).cloned().collect::<Vec<_>>());
        }
        if !observed.has_account() {
            // A pod must be of the account that there is; it comes in a moment.
            let is_new = |name: &String| !observed.deployments().iter().any(|state| state.name == *name);
            held.extend(desired.iter().map(ResourceExt::name_any).filter(is_new));
        }
        step.checks = image_check::checks(desired, observed, &mut step.rollout);
        if !step.checks.troubles.is_empty() {
            // Nobody waits for an image that can't be had here.
            pace.end(object);
        }
        step
    }
}
