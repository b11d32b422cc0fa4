//! Which Deployments may be changed now. A pod that carries traffic is replaced only while every other replica has shown
//! that it serves, so that one is away at most; one that carries none is replaced at once, since that takes nothing away.
//! Pure: decided from what was observed, again and again until nothing has to wait.

use causeway_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

use super::{DeploymentState, Fleet};

/// What has to wait in this pass, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rollout {
    /// Deployments that are not changed yet.
    pub(crate) held: Vec<String>,
    /// Deployments that are no longer wanted and stay until the others are through.
    pub(crate) kept: Vec<String>,
}

/// What is known of the Deployment that is wanted.
pub(crate) fn live<'a>(wanted: &Deployment, observed: &'a impl Fleet) -> Option<&'a DeploymentState> {
    let name = wanted.name_any();
    observed.deployments().iter().find(|state| state.name == name)
}

/// Whether the wanted form replaces its pod.
pub(crate) fn changes(wanted: &Deployment, state: &DeploymentState) -> bool {
    state.template_hash.as_ref() != template_hash(wanted)
}

/// Whether every Deployment is as desired and its pod has shown that it serves.
pub(crate) fn is_through(desired: &[Deployment], observed: &impl Fleet) -> bool {
    desired.iter().all(|wanted| {
        live(wanted, observed).is_some_and(|state| !changes(wanted, state) && is_settled(state, observed))
    })
}

/// Decides for the Deployments that are `desired`, in their order, from what was `observed`.
pub(crate) fn rollout(desired: &[Deployment], observed: &impl Fleet) -> Rollout {
    let live = |wanted: &Deployment| live(wanted, observed);
    let is_settled = |wanted: &Deployment| live(wanted).is_some_and(|state| is_settled(state, observed));
    let mut held = Vec::new();
    let (mut is_under_way, mut is_one_taken) = (false, false);
    for wanted in desired {
        // One that is not there is made, and takes nothing away.
        let Some(state) = live(wanted) else {
            is_under_way = true;
            continue;
        };
        let changes = changes(wanted, state);
        is_under_way |= changes || state.is_rolling;
        if !changes || !state.is_available {
            continue;
        }
        let others_serve = desired.iter().all(|other| std::ptr::eq(other, wanted) || is_settled(other));
        if others_serve && !is_one_taken {
            is_one_taken = true;
        } else {
            held.push(wanted.name_any());
        }
    }
    let is_wanted = |state: &DeploymentState| desired.iter().any(|wanted| wanted.name_any() == state.name);
    let kept =
        observed.deployments().iter().filter(|state| is_under_way && state.is_available && !is_wanted(state));
    Rollout { held, kept: kept.map(|state| state.name.clone()).collect() }
}

/// Whether its pod is the one that its latest change asks for, and has shown that it serves: if the newest spec is
/// refused, then an earlier one.
pub(crate) fn is_settled(state: &DeploymentState, observed: &impl Fleet) -> bool {
    let mut pods = observed.pods().iter().filter(|pod| pod.index == state.index && !pod.is_leaving);
    state.is_available && !state.is_rolling && pods.any(|pod| observed.has_served(&pod.name))
}

fn template_hash(deployment: &Deployment) -> Option<&String> {
    deployment.annotations().get(names::ANNOTATION_TEMPLATE_HASH)
}

#[cfg(test)]
mod tests;
