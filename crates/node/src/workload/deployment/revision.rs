//! Revisions: the numbers that `kubectl rollout history` shows and `undo` goes back to, and the annotations around them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// The revision of a ReplicaSet, 0 without one.
pub(super) fn of(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// The revision that the newest template gets.
pub(super) fn next(old: &[&ReplicaSet]) -> i64 {
    old.iter().map(|set| of(set)).max().unwrap_or(0) + 1
}

/// The annotations of the ReplicaSet of the newest template; `before` are those it has.
pub(super) fn annotations(
    deployment: &Deployment,
    before: &BTreeMap<String, String>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut after = before.clone();
    for (key, value) in deployment.annotations() {
        if !NOT_COPIED.contains(&key.as_str()) {
            after.insert(key.clone(), value.clone());
        }
    }
    let current: Option<i64> = before.get(REVISION).and_then(|revision| revision.parse().ok());
    if current.unwrap_or(0) < revision {
        after.insert(REVISION.to_owned(), revision.to_string());
        if let Some(current) = before.get(REVISION) {
            let history = match before.get(REVISION_HISTORY) {
                Some(history) if !history.is_empty() => format!("{history},{current}"),
                _ => current.clone(),
            };
            after.insert(REVISION_HISTORY.to_owned(), history);
        }
    }
    after
}

/// Old ReplicaSets that the history limit leaves no room for, oldest first.
pub(super) fn beyond_history<'a>(deployment: &Deployment, old: &[&'a ReplicaSet]) -> Vec<&'a ReplicaSet> {
    let limit =
        deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10).max(0) as usize;
    let mut candidates: Vec<&ReplicaSet> =
        old.iter().copied().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
    candidates.sort_by_key(|set| of(set));
    let surplus = candidates.len().saturating_sub(limit);
    candidates.truncate(surplus);
    candidates.retain(|set| {
        let spec_replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = set.status.clone().unwrap_or_default();
        spec_replicas == 0 && status.replicas == 0 && set.metadata.generation <= status.observed_generation
    });
    candidates
}
