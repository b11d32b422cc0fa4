//! A Deployment's conditions: set and read with the rules of their two timestamps.

use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::DeploymentCondition, apimachinery::pkg::apis::meta::v1::Time};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Finds a condition by its type.
pub(super) fn get<'a>(conditions: &'a [DeploymentCondition], type_: &str) -> Option<&'a DeploymentCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Sets a condition; the same status and reason leave it as it is, the same status keeps its transition time.
pub(super) fn set(
    conditions: &mut Vec<DeploymentCondition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let before = conditions.iter().position(|condition| condition.type_ == type_);
    let before = before.map(|at| conditions.remove(at));
    if let Some(before) = &before
        && before.status == status
        && before.reason.as_deref() == Some(reason)
    {
        conditions.push(before.clone());
        return;
    }
    push(conditions, before, type_, status, reason, message, now);
}

/// Sets a condition and says that there was news, even when status and reason stay.
pub(super) fn touch(
    conditions: &mut Vec<DeploymentCondition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let before = conditions.iter().position(|condition| condition.type_ == type_);
    let before = before.map(|at| conditions.remove(at));
    push(conditions, before, type_, status, reason, message, now);
}

fn push(
    conditions: &mut Vec<DeploymentCondition>,
    before: Option<DeploymentCondition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let since =
        before.filter(|before| before.status == status).and_then(|before| before.last_transition_time);
    conditions.push(DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(since.unwrap_or(Time(now))),
        last_update_time: Some(Time(now)),
    });
}

/// Removes a condition.
pub(super) fn remove(conditions: &mut Vec<DeploymentCondition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}
