//! Waits until the operator's new pods are ready and the old ones gone, and says at once what will not pass by itself.

use std::time::{Duration, Instant};

use anyhow::bail;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use crate::parts::installation::{OPERATOR, OPERATOR_LABEL};
use crate::parts::progress::Detail;
use crate::parts::{operator_lease, pod_trouble, refusal};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) async fn ready(
    client: &Client,
    namespace: &str,
    deadline: Instant,
    detail: &Detail,
) -> anyhow::Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    loop {
        let operator = match api.get_opt(OPERATOR).await {
            Ok(Some(operator)) => operator,
            Ok(None) => bail!("somebody has deleted the operator's Deployment"),
            Err(error) => bail!("can't look at the operator: {}", refusal::words(&error)),
        };
        let is_wanted = operator.spec.as_ref().and_then(|spec| spec.replicas) != Some(0);
        let how = match state(&operator) {
            Some(how) => how,
            // The old leader has given the lease up, and a new one has to take it.
            None if is_wanted => match operator_lease::trouble(client, namespace).await {
                Some(trouble) => trouble,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        detail.say(&how);
        // Until somebody has looked at what was applied, all that is there is of what was there before.
        if is_seen(&operator)
            && let Some(why) = trouble(client, namespace, &operator).await
        {
            bail!("the operator does not start: {why}");
        }
        if Instant::now() >= deadline {
            bail!(
                "the operator is not ready in time: {how}; `kubectl -n {namespace} logs deployment/{OPERATOR}` may say why"
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What is still missing; none once all are new and ready.
fn state(operator: &Deployment) -> Option<String> {
    let wanted = operator.spec.as_ref()?.replicas.unwrap_or(1);
    let Some(status) = operator.status.as_ref().filter(|_| is_seen(operator)) else {
        return Some("nobody has looked at it yet".to_owned());
    };
    let (updated, ready) = (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    let all = status.replicas.unwrap_or(0);
    let is_done = updated >= wanted && ready >= wanted && all <= wanted;
    (!is_done).then(|| format!("{updated} of {wanted} are new, {ready} are ready, {all} are there"))
}

/// Whether the cluster has seen the newest change of it.
fn is_seen(operator: &Deployment) -> bool {
    let seen = operator.status.as_ref().and_then(|status| status.observed_generation);
    seen >= operator.metadata.generation
}

/// Why its newest pods don't start.
async fn trouble(client: &Client, namespace: &str, operator: &Deployment) -> Option<String> {
    let ours = ListParams::default().labels(OPERATOR_LABEL);
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let sets = sets.list(&ours).await.ok()?.items;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = pods.list(&ours).await.ok()?.items;
    trouble_of(operator, &sets, &pods)
}

fn trouble_of(operator: &Deployment, sets: &[ReplicaSet], pods: &[Pod]) -> Option<String> {
    let revision = operator.annotations().get(REVISION)?;
    let newest = sets.iter().find(|set| set.annotations().get(REVISION) == Some(revision))?;
    // What the Deployment says of this may be of an older set.
    let conditions = newest.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut refused = conditions.filter(|one| one.type_ == "ReplicaFailure" && one.status == "True");
    if let Some(message) = refused.find_map(|one| one.message.clone()) {
        return Some(message);
    }
    let newest = newest.name_any();
    let is_newest = |pod: &&Pod| pod.owner_references().iter().any(|owner| owner.name == newest);
    // No room now may be room in a moment.
    let lasting = |pod: &Pod| pod_trouble::of(pod).filter(|why| !why.starts_with("no node"));
    pods.iter()
        .filter(is_newest)
        .find_map(|pod| lasting(pod).map(|why| format!("pod {}: {why}", pod.name_any())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_ready_when_all_pods_are_new() {
        let with = |status: serde_json::Value| -> Deployment {
            serde_json::from_value(json!({
                "metadata": {"generation": 2},
                "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": status,
            }))
            .unwrap()
        };
        let done =
            json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 2});
        assert_eq!(state(&with(done)), None);
        for status in [
            json!({}),
            json!({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 2}),
            json!({"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 2, "replicas": 2}),
            json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 3}),
        ] {
            assert!(state(&with(status)).is_some());
        }
    }

    #[test]
    fn what_an_older_set_suffers_from_is_not_told_of_the_newest() {
        let annotated = |revision: &str| json!({REVISION: revision});
        let operator: Deployment =
            serde_json::from_value(json!({"metadata": {"annotations": annotated("2")}})).unwrap();
        let set = |name: &str, revision: &str, conditions: serde_json::Value| -> ReplicaSet {
            serde_json::from_value(json!({
                "metadata": {"name": name, "annotations": annotated(revision)},
                "status": {"replicas": 0, "conditions": conditions},
            }))
            .unwrap()
        };
        let pod = |owner: &str| -> Pod {
            let state = json!({"waiting": {"reason": "ErrImagePull", "message": "nowhere"}});
            serde_json::from_value(json!({
                "metadata": {"name": "pod", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "u"}]},
                "status": {"containerStatuses": [{"name": "x", "image": "x", "imageID": "", "ready": false, "restartCount": 0, "state": state}]},
            }))
            .unwrap()
        };
        let failed = json!([{"type": "ReplicaFailure", "status": "True", "message": "quota"}]);
        let sets = [set("old", "1", failed.clone()), set("new", "2", json!([]))];
        assert_eq!(trouble_of(&operator, &sets, &[pod("old")]), None);
        assert!(trouble_of(&operator, &sets, &[pod("new")]).unwrap().contains("can't be had"));
        let sets = [set("old", "1", json!([])), set("new", "2", failed)];
        assert_eq!(trouble_of(&operator, &sets, &[]).unwrap(), "quota");
    }
}
