//! A Deployment's status: counts over its ReplicaSets, and how the rollout goes. `kubectl rollout status` reads all of it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    conditions::{self, AVAILABLE, PROGRESSING, REPLICA_FAILURE},
    rolling::{Bounds, available, wanted},
};

const NO_DEADLINE: i32 = i32::MAX;

/// The status and, while a deadline runs, when to look again.
pub(super) fn status(
    deployment: &Deployment,
    bounds: Bounds,
    new: Option<&ReplicaSet>,
    all: &[&ReplicaSet],
    now: Timestamp,
) -> (DeploymentStatus, Option<Duration>) {
    let before = deployment.status.clone().unwrap_or_default();
    let actual = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let ready = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let asked: i32 = all.iter().map(|set| wanted(set)).sum();
    let available: i32 = all.iter().map(|set| available(set)).sum();
    let mut after = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: Some(all.iter().map(|set| actual(set)).sum()),
        updated_replicas: Some(new.map_or(0, actual)),
        ready_replicas: Some(all.iter().map(|set| ready(set)).sum()),
        available_replicas: Some(available),
        unavailable_replicas: Some((asked - available).max(0)),
        collision_count: before.collision_count,
        conditions: None,
        ..DeploymentStatus::default()
    };
    let mut list = before.conditions.clone().unwrap_or_default();
    if available >= bounds.min_available() {
        let message = "Deployment has minimum availability.".to_owned();
        conditions::set(&mut list, AVAILABLE, "True", "MinimumReplicasAvailable", message, now);
    } else {
        let message = "Deployment does not have minimum availability.".to_owned();
        conditions::set(&mut list, AVAILABLE, "False", "MinimumReplicasUnavailable", message, now);
    }
    let failure = all
        .iter()
        .flat_map(|set| {
            set.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
        })
        .find(|condition| condition.type_ == REPLICA_FAILURE && condition.status == "True");
    match failure {
        Some(failure) => conditions::set(
            &mut list,
            REPLICA_FAILURE,
            "True",
            failure.reason.as_deref().unwrap_or_default(),
            failure.message.clone().unwrap_or_default(),
            now,
        ),
        None => conditions::remove(&mut list, REPLICA_FAILURE),
    }
    let check_again = progress(deployment, bounds, new, &before, &after, &mut list, now);
    after.conditions = Some(list);
    (after, check_again)
}

fn progress(
    deployment: &Deployment,
    bounds: Bounds,
    new: Option<&ReplicaSet>,
    before: &DeploymentStatus,
    after: &DeploymentStatus,
    list: &mut Vec<DeploymentCondition>,
    now: Timestamp,
) -> Option<Duration> {
    let spec = deployment.spec.as_ref()?;
    let deadline = spec.progress_deadline_seconds.unwrap_or(600);
    if deadline == NO_DEADLINE {
        conditions::remove(list, PROGRESSING);
        return None;
    }
    let reason =
        conditions::get(list, PROGRESSING).and_then(|condition| condition.reason.clone()).unwrap_or_default();
    if spec.paused == Some(true) {
        if reason != "ProgressDeadlineExceeded" {
            let message = "Deployment is paused".to_owned();
            conditions::set(list, PROGRESSING, "Unknown", "DeploymentPaused", message, now);
        }
        return None;
    }
    if reason == "DeploymentPaused" {
        let message = "Deployment is resumed".to_owned();
        conditions::set(list, PROGRESSING, "Unknown", "DeploymentResumed", message, now);
        return None;
    }
    let what = new.map_or_else(
        || format!("Deployment {:?}", deployment.name_any()),
        |new| format!("ReplicaSet {:?}", new.name_any()),
    );
    if reason == "NewReplicaSetAvailable" && after.replicas == after.updated_replicas {
        return None;
    }
    if is_complete(bounds, after) {
        let message = format!("{what} has successfully progressed.");
        conditions::set(list, PROGRESSING, "True", "NewReplicaSetAvailable", message, now);
        return None;
    }
    if has_moved(before, after) {
        let message = format!("{what} is progressing.");
        conditions::touch(list, PROGRESSING, "True", "ReplicaSetUpdated", message, now);
    }
    let current = conditions::get(list, PROGRESSING)?;
    if matches!(current.reason.as_deref(), Some("ProgressDeadlineExceeded" | "NewReplicaSetAvailable")) {
        return None;
    }
    let since = current.last_update_time.as_ref().map_or(now, |time| time.0);
    let left = since.as_second() + i64::from(deadline) - now.as_second();
    if left > 0 {
        return Some(Duration::from_secs(left as u64 + 1));
    }
    let message = format!("{what} has timed out progressing.");
    conditions::set(list, PROGRESSING, "False", "ProgressDeadlineExceeded", message, now);
    None
}

/// True when every pod is of the newest template and available.
pub(super) fn is_complete(bounds: Bounds, status: &DeploymentStatus) -> bool {
    let all = Some(bounds.replicas);
    let zero_if_none = |count: Option<i32>| Some(count.unwrap_or(0));
    [status.updated_replicas, status.replicas, status.available_replicas]
        .into_iter()
        .all(|count| zero_if_none(count) == all)
}

fn has_moved(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(after.updated_replicas) > count(before.updated_replicas)
        || old(after) < old(before)
        || count(after.ready_replicas) > count(before.ready_replicas)
        || count(after.available_replicas) > count(before.available_replicas)
}

/// True when two statuses say the same; a count of zero may be left out, the order of conditions is free.
pub(super) fn same(a: &DeploymentStatus, b: &DeploymentStatus) -> bool {
    let normal = |status: &DeploymentStatus| {
        let mut status = status.clone();
        for count in [
            &mut status.replicas,
            &mut status.updated_replicas,
            &mut status.ready_replicas,
            &mut status.available_replicas,
            &mut status.unavailable_replicas,
        ] {
            *count = count.filter(|count| *count != 0);
        }
        if let Some(conditions) = &mut status.conditions {
            conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        }
        status
    };
    normal(a) == normal(b)
}

/// A merge patch with all counts.
pub(super) fn patch(status: &DeploymentStatus) -> Value {
    let mut patch = serde_json::to_value(status).unwrap_or_default();
    if let Some(fields) = patch.as_object_mut() {
        for field in
            ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"]
        {
            // A zero is removed, as a server in Go would leave it out; kubectl prints `<none>` for some counts otherwise.
            if fields.get(field) == Some(&json!(0)) {
                fields.insert(field.to_owned(), Value::Null);
            }
        }
    }
    patch
}
