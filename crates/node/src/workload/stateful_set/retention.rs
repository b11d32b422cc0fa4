//! Who owns the claims of a set's pods, which decides with whom they go: with the set, with the pod that is scaled away, with
//! nobody.

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;

use super::member;
use crate::workload::controller_reference;

const DELETE: &str = "Delete";

fn when_deleted(set: &StatefulSet) -> bool {
    let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
    policy.and_then(|policy| policy.when_deleted.as_deref()) == Some(DELETE)
}

fn when_scaled(set: &StatefulSet) -> bool {
    let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
    policy.and_then(|policy| policy.when_scaled.as_deref()) == Some(DELETE)
}

/// The owners of a claim that is made for a pod.
pub(super) fn at_first(set: &StatefulSet) -> Option<Vec<OwnerReference>> {
    when_deleted(set).then(|| vec![controller_reference(set)])
}

/// The owners that a pod's claim shall have, if it has others.
pub(super) fn owners(
    set: &StatefulSet,
    pod: &Pod,
    ordinal: i32,
    claim: &PersistentVolumeClaim,
) -> Option<Vec<OwnerReference>> {
    let before = claim.owner_references();
    let (of_set, of_pod) = (controller_reference(set), controller_reference(pod));
    let same_name = |a: &OwnerReference, b: &OwnerReference| a.kind == b.kind && a.name == b.name;
    let own = |owner: &OwnerReference| same_name(owner, &of_set) || same_name(owner, &of_pod);
    // Of a set or pod that was there before: its claims go with it, if they do.
    let is_stale = |owner: &OwnerReference| own(owner) && owner.uid != of_set.uid && owner.uid != of_pod.uid;
    let is_foreign = |owner: &OwnerReference| !own(owner) && owner.controller == Some(true);
    if before.iter().any(|owner| is_stale(owner) || is_foreign(owner)) {
        return None;
    }
    let is_condemned = !member::is_wanted(set, ordinal);
    let mut after: Vec<OwnerReference> = before.iter().filter(|owner| !own(owner)).cloned().collect();
    if when_scaled(set) && is_condemned {
        after.push(of_pod);
    } else if when_deleted(set) {
        after.push(of_set);
    }
    let uids = |owners: &[OwnerReference]| {
        let mut uids: Vec<String> = owners.iter().map(|owner| owner.uid.clone()).collect();
        uids.sort();
        uids
    };
    (uids(before) != uids(&after)).then_some(after)
}

/// Whether a claim goes with a pod that is no more: the next pod of this name waits for that, and gets one of its own.
pub(super) fn is_left(set: &StatefulSet, pod: &str, claim: &PersistentVolumeClaim) -> bool {
    when_scaled(set) && claim.owner_references().iter().any(|owner| owner.kind == "Pod" && owner.name == pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned(
        when_deleted: &str,
        when_scaled: &str,
        ordinal: i32,
        before: &serde_json::Value,
    ) -> Option<Vec<String>> {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "db", "uid": "set"},
            "spec": {
                "replicas": 1, "selector": {}, "template": {},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": when_scaled},
            },
        }))
        .unwrap();
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": format!("db-{ordinal}"), "uid": "pod"}}))
                .unwrap();
        let claim: PersistentVolumeClaim =
            serde_json::from_value(json!({"metadata": {"name": "data", "ownerReferences": before}})).unwrap();
        owners(&set, &pod, ordinal, &claim).map(|owners| owners.into_iter().map(|owner| owner.uid).collect())
    }

    #[test]
    fn the_policy_says_with_whom_a_claim_goes() {
        let nobody = json!([]);
        let by = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        let own = |uids: &[&str]| Some(uids.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>());
        assert_eq!(owned("Retain", "Retain", 0, &nobody), None);
        assert_eq!(owned("Retain", "Retain", 0, &by("StatefulSet", "db", "set")), own(&[]));
        assert_eq!(owned("Delete", "Retain", 0, &nobody), own(&["set"]));
        assert_eq!(owned("Delete", "Retain", 1, &nobody), own(&["set"]));
        assert_eq!(owned("Retain", "Delete", 0, &nobody), None);
        assert_eq!(owned("Retain", "Delete", 1, &nobody), own(&["pod"]));
        assert_eq!(owned("Delete", "Delete", 1, &by("StatefulSet", "db", "set")), own(&["pod"]));
        assert_eq!(owned("Delete", "Delete", 0, &by("Pod", "db-0", "pod")), own(&["set"]));
        assert_eq!(
            owned("Delete", "Delete", 0, &by("Pod", "db-0", "an earlier one")),
            None,
            "it goes with that"
        );
        assert_eq!(owned("Delete", "Delete", 0, &by("Backup", "b", "x")), None, "somebody else sees to it");
    }
}
