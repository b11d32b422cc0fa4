//! What a set says of its pods.

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::StatefulSetStatus, core::v1::Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    member,
    plan::{Observed, health},
};

/// Counts of zero are left out of what the server stores.
const COUNTS: [&str; 4] = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];

/// The status of a set with these pods.
pub(super) fn of(observed: &Observed<'_>, now: Timestamp) -> StatefulSetStatus {
    let Observed { set, pods, current, update, .. } = *observed;
    let count = |wanted: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| wanted(pod)).count() as i32;
    let at = |name: &str| {
        count(&|pod: &Pod| pod.metadata.deletion_timestamp.is_none() && member::revision(pod) == name)
    };
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: pods.len() as i32,
        ready_replicas: Some(count(&|pod| health(set, pod, now).is_ready)),
        available_replicas: Some(count(&|pod| health(set, pod, now).is_available())),
        current_replicas: Some(at(&current.name_any())),
        updated_replicas: Some(at(&update.name_any())),
        current_revision: Some(current.name_any()),
        update_revision: Some(update.name_any()),
        collision_count: Some(set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0)),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    let wanted = member::replicas(set);
    let is_done =
        [status.updated_replicas, status.ready_replicas, Some(status.replicas)] == [Some(wanted); 3];
    if is_done {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

/// True when two statuses say the same; a count of zero may be left out.
pub(super) fn same(a: &StatefulSetStatus, b: &StatefulSetStatus) -> bool {
    let zeroless = |status: &StatefulSetStatus| {
        let mut status = status.clone();
        for count in [
            &mut status.ready_replicas,
            &mut status.available_replicas,
            &mut status.current_replicas,
            &mut status.updated_replicas,
            &mut status.collision_count,
        ] {
            *count = count.filter(|count| *count != 0);
        }
        status
    };
    zeroless(a) == zeroless(b)
}

/// A merge patch that also says what is zero.
pub(super) fn patch(status: &StatefulSetStatus) -> Value {
    let mut patch = serde_json::to_value(status).unwrap_or_default();
    if let Some(fields) = patch.as_object_mut() {
        for field in COUNTS {
            fields.entry(field).or_insert(json!(0));
        }
    }
    patch
}
