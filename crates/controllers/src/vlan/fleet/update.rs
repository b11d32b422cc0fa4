//! Changes of pods that the operator brings and the spec does not: a newer default image, another form of pods. They are
//! told from edits by what of a spec a pod was made of, and wait for a turn, or for their owner.

use causeway_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

use super::{
    Fleet,
    rollout::{changes, is_settled, live},
};

/// Why what the operator brings is not in every pod yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// These objects are updated first.
    ForTurn(Vec<String>),
    /// Its owner decides.
    ForOwner,
}

/// The Deployments that carry traffic and that only the operator wants to be different. One that carries none has nothing to
/// lose, and nobody should wait for it.
pub(crate) fn updates(desired: &[Deployment], observed: &impl Fleet) -> Vec<String> {
    let asked = |deployment: &Deployment| deployment.annotations().get(names::ANNOTATION_ASKED_HASH).cloned();
    let is_update = |wanted: &&Deployment| {
        live(wanted, observed).is_some_and(|state| {
            let is_asked_for = state.asked_hash.is_some() && state.asked_hash != asked(wanted);
            is_settled(state, observed) && changes(wanted, state) && !is_asked_for
        })
    };
    desired.iter().filter(is_update).map(ResourceExt::name_any).collect()
}
