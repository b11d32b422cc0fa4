//! The pure middle of the ReplicaSet controller: which pods to make and remove, and the status to show.

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};

use super::LONGEST_WAIT;

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub name: String,
    pub uid: Option<String>,
}

/// What a reconcile does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub create: usize,
    pub delete: Vec<Victim>,
    pub status: ReplicaSetStatus,
    /// When a ready pod becomes an available one.
    pub check_again: Option<Duration>,
}

/// Compares the pods of a ReplicaSet with its spec.
pub(crate) fn plan(set: &ReplicaSet, pods: &[Pod], now: Timestamp) -> Plan {
    let spec = set.spec.clone().unwrap_or_default();
    let wanted = spec.replicas.unwrap_or(1).max(0) as usize;
    let mut active: Vec<&Pod> = pods.iter().filter(|pod| is_active(pod)).collect();
    let deleting = set.metadata.deletion_timestamp.is_some();
    let (create, surplus) = if deleting {
        (0, 0)
    } else {
        (wanted.saturating_sub(active.len()), active.len().saturating_sub(wanted))
    };
    let template_labels =
        spec.template.as_ref().and_then(|t| t.metadata.as_ref()?.labels.clone()).unwrap_or_default();
    let fully_labeled = active
        .iter()
        .filter(|pod| {
            let labels = pod.metadata.labels.as_ref();
            template_labels
                .iter()
                .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        })
        .count();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let waits: Vec<Option<Duration>> = active
        .iter()
        .filter_map(|pod| ready_since(pod))
        .map(|since| until_available(since, min_ready, now))
        .collect();
    let status = ReplicaSetStatus {
        replicas: active.len() as i32,
        fully_labeled_replicas: Some(fully_labeled as i32),
        ready_replicas: Some(waits.len() as i32),
        available_replicas: Some(waits.iter().filter(|wait| wait.is_none()).count() as i32),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
        ..ReplicaSetStatus::default()
    };
    active.sort_by_cached_key(|pod| deletion_rank(pod));
    let delete = active
        .into_iter()
        .take(surplus)
        .map(|pod| Victim {
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone(),
        })
        .collect();
    let check_again = waits.into_iter().flatten().min().map(|wait| wait.min(LONGEST_WAIT));
    Plan { create, delete, status, check_again }
}

/// The status with or without the condition that pods cannot be made.
pub(crate) fn with_failure(
    mut status: ReplicaSetStatus,
    set: &ReplicaSet,
    failure: Option<String>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let mut conditions = status.conditions.take().unwrap_or_default();
    let before = conditions
        .iter()
        .position(|condition| condition.type_ == "ReplicaFailure")
        .map(|at| conditions.remove(at));
    if let Some(message) = failure {
        let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let reason = if wanted > status.replicas { "FailedCreate" } else { "FailedDelete" };
        let since = before
            .filter(|before| before.reason.as_deref() == Some(reason))
            .and_then(|before| before.last_transition_time);
        conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: Some(since.unwrap_or(Time(now))),
        });
    }
    status.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
    status
}

/// A merge patch that also removes what the status no longer has.
pub(crate) fn status_patch(status: &ReplicaSetStatus) -> Value {
    let mut patch = serde_json::to_value(status).unwrap_or_default();
    if let Some(fields) = patch.as_object_mut() {
        fields.entry("conditions").or_insert(Value::Null);
        // Zero counts are left out of what the server stores, so they are sent explicitly.
        for field in ["readyReplicas", "availableReplicas", "fullyLabeledReplicas"] {
            fields.entry(field).or_insert(json!(0));
        }
    }
    patch
}

/// True when two statuses say the same; a count of zero may be left out.
pub(crate) fn same_status(a: &ReplicaSetStatus, b: &ReplicaSetStatus) -> bool {
    let zeroless = |status: &ReplicaSetStatus| {
        let mut status = status.clone();
        for count in
            [&mut status.ready_replicas, &mut status.available_replicas, &mut status.fully_labeled_replicas]
        {
            *count = count.filter(|count| *count != 0);
        }
        status
    };
    zeroless(a) == zeroless(b)
}

/// True for a pod that counts as a replica.
pub(crate) fn is_active(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !is_finished(pod)
}

/// True for a pod whose containers have all ended for good.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Since when a pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let ready =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

/// How long a ready pod has to wait until it counts as available.
pub(crate) fn until_available(
    ready_since: Timestamp,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds <= 0 {
        return None;
    }
    let available_at = ready_since.as_second() + i64::from(min_ready_seconds);
    let wait = available_at - now.as_second();
    (wait > 0).then(|| Duration::from_secs(wait as u64))
}

/// Pods that do the least go first: not placed, not running, cheap to delete, not ready, ready for less long, often restarted, young.
fn deletion_rank(pod: &Pod) -> impl Ord + use<> {
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let phase = match phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let cost: i32 = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get("controller.kubernetes.io/pod-deletion-cost")?.parse().ok())
        .unwrap_or(0);
    let ready = ready_since(pod);
    let restarts = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref())
        .and_then(|statuses| statuses.iter().map(|status| status.restart_count).max())
        .unwrap_or(0);
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (
        placed,
        phase,
        ready.is_some(),
        cost,
        Reverse(ready),
        Reverse(restarts),
        Reverse(created),
        pod.metadata.name.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(replicas: i32, min_ready: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": 3},
            "spec": {"replicas": replicas, "minReadySeconds": min_ready, "selector": {"matchLabels": {"app": "web"}},
                     "template": {"metadata": {"labels": {"app": "web", "x": "y"}}, "spec": {"containers": []}}}
        }))
        .unwrap()
    }

    fn pod(name: &str, phase: &str, ready_at: Option<&str>) -> Pod {
        let ready = json!({"type": "Ready", "status": if ready_at.is_some() { "True" } else { "False" }, "lastTransitionTime": ready_at});
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": phase, "conditions": [ready]}
        }))
        .unwrap()
    }

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    #[test]
    fn makes_what_is_missing_and_ignores_finished_pods() {
        let pods = [pod("a", "Running", Some("2026-01-01T00:00:00Z")), pod("b", "Failed", None)];
        let plan = plan(&set(3, 0), &pods, now());
        assert_eq!((plan.create, plan.delete.len()), (2, 0));
        assert_eq!(
            (plan.status.replicas, plan.status.ready_replicas, plan.status.available_replicas),
            (1, Some(1), Some(1))
        );
        assert_eq!(plan.status.fully_labeled_replicas, Some(0));
        assert_eq!(plan.status.observed_generation, Some(3));
    }

    #[test]
    fn removes_the_pods_that_do_the_least() {
        let pods = [
            pod("old", "Running", Some("2026-01-01T00:00:00Z")),
            pod("young", "Running", Some("2026-01-01T00:00:30Z")),
            pod("not-ready", "Running", None),
            pod("pending", "Pending", None),
        ];
        let names = |replicas| {
            let plan = plan(&set(replicas, 0), &pods, now());
            plan.delete.into_iter().map(|victim| victim.name).collect::<Vec<_>>()
        };
        assert_eq!(names(3), ["pending"]);
        assert_eq!(names(1), ["pending", "not-ready", "young"]);
        assert_eq!(names(0).len(), 4);
    }

    #[test]
    fn a_ready_pod_is_available_after_min_ready_seconds() {
        let pods = [pod("a", "Running", Some("2026-01-01T00:00:50Z"))];
        let plan = plan(&set(1, 30), &pods, now());
        assert_eq!((plan.status.ready_replicas, plan.status.available_replicas), (Some(1), Some(0)));
        assert_eq!(plan.check_again, Some(Duration::from_secs(20)));
    }

    #[test]
    fn a_set_that_is_being_deleted_is_left_alone() {
        let mut set = set(3, 0);
        set.metadata.deletion_timestamp = Some(Time(now()));
        let plan = plan(&set, &[], now());
        assert_eq!((plan.create, plan.delete.len()), (0, 0));
    }

    #[test]
    fn the_failure_condition_comes_and_goes() {
        let failed = with_failure(ReplicaSetStatus::default(), &set(1, 0), Some("quota".into()), now());
        let condition = &failed.conditions.as_ref().unwrap()[0];
        assert_eq!(
            (condition.type_.as_str(), condition.reason.as_deref()),
            ("ReplicaFailure", Some("FailedCreate"))
        );
        assert_eq!(with_failure(failed, &set(1, 0), None, now()).conditions, None);
    }
}
