use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn set(replicas: i32, more: Value) -> StatefulSet {
    let mut spec = json!({
        "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "new"}]}},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": {"name": "db", "namespace": "ns", "uid": "set", "generation": 4}, "spec": spec,
    }))
    .unwrap()
}

fn revision(name: &str, image: &str) -> ControllerRevision {
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]}, "$patch": "replace"});
    serde_json::from_value(
        json!({"metadata": {"name": name}, "revision": 1, "data": {"spec": {"template": template}}}),
    )
    .unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Is {
    Ready,
    Starting,
    Leaving,
    Failed,
}

fn pod(ordinal: i32, revision: &str, is: Is) -> Pod {
    let phase = match is {
        Is::Failed => "Failed",
        Is::Starting => "Pending",
        Is::Ready | Is::Leaving => "Running",
    };
    let ready = if is == Is::Ready { "True" } else { "False" };
    let gone = (is == Is::Leaving).then_some("2026-01-01T00:00:00Z");
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("db-{ordinal}"), "uid": format!("pod-{ordinal}"), "deletionTimestamp": gone,
            "labels": {"app": "db", "controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": format!("db-{ordinal}")},
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:50Z"}]},
    }))
    .unwrap()
}

fn claim(name: &str, more: Value) -> PersistentVolumeClaim {
    let mut claim = json!({"metadata": {"name": name, "uid": name}});
    for (key, value) in more.as_object().unwrap() {
        claim["metadata"][key] = value.clone();
    }
    serde_json::from_value(claim).unwrap()
}

/// What is done, in short: `+db-0`, `-db-1`.
fn actions(plan: &Plan) -> String {
    let words = plan.actions.iter().map(|action| match action {
        Action::CreateClaim { claim, .. } => format!("+{}", claim.name_any()),
        Action::CreatePod(pod) => {
            let image = pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap_or_default();
            format!("+{}:{image}", pod.name_any())
        }
        Action::DeletePod { name, .. } => format!("-{name}"),
        Action::LabelPod { name, .. } => format!("label {name}"),
        Action::OwnClaim { name, .. } => format!("own {name}"),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn planned(set: &StatefulSet, pods: &[Pod], claims: &[PersistentVolumeClaim]) -> Plan {
    let claims = claims.iter().map(|claim| (claim.name_any(), claim.clone())).collect();
    let (current, update) = (revision("old", "old"), revision("new", "new"));
    plan(&Observed { set, pods, claims: &claims, current: &current, update: &update }, now())
}

fn steps(set: &StatefulSet, pods: &[Pod]) -> String {
    actions(&planned(set, pods, &[]))
}

#[test]
fn pods_come_one_after_the_other() {
    let three = set(3, json!({}));
    assert_eq!(steps(&three, &[]), "+db-0:new");
    assert_eq!(steps(&three, &[pod(0, "new", Is::Starting)]), "");
    assert_eq!(steps(&three, &[pod(0, "new", Is::Ready)]), "+db-1:new");
    assert_eq!(steps(&three, &[pod(0, "new", Is::Leaving), pod(1, "new", Is::Ready)]), "");
    assert_eq!(steps(&three, &[pod(1, "new", Is::Ready), pod(2, "new", Is::Ready)]), "+db-0:new");
    assert_eq!(steps(&three, &[pod(0, "new", Is::Failed)]), "-db-0");
    let patient = set(3, json!({"minReadySeconds": 30}));
    let plan = planned(&patient, &[pod(0, "new", Is::Ready)], &[]);
    assert_eq!((actions(&plan), plan.check_again), (String::new(), Some(Duration::from_secs(20))));
    assert_eq!((plan.status.ready_replicas, plan.status.available_replicas), (Some(1), Some(0)));
}

#[test]
fn in_parallel_they_come_at_once() {
    let three = set(3, json!({"podManagementPolicy": "Parallel"}));
    assert_eq!(steps(&three, &[pod(1, "new", Is::Starting)]), "+db-0:new +db-2:new");
    let one = set(1, json!({"podManagementPolicy": "Parallel"}));
    let pods = [0, 1, 2].map(|ordinal| pod(ordinal, "new", Is::Starting));
    assert_eq!(steps(&one, &pods), "-db-2 -db-1");
}

#[test]
fn they_go_from_the_last_to_the_first() {
    let one = set(1, json!({}));
    let ready = [0, 1, 2, 3].map(|ordinal| pod(ordinal, "new", Is::Ready));
    assert_eq!(steps(&one, &ready), "-db-3");
    let mut leaving = ready.clone();
    leaving[3] = pod(3, "new", Is::Leaving);
    assert_eq!(steps(&one, &leaving), "", "one at a time");
    let mut unwell = ready.clone();
    unwell[2] = pod(2, "new", Is::Starting);
    assert_eq!(steps(&one, &unwell), "-db-3", "what is well goes in its turn");
    assert_eq!(steps(&one, &unwell[..3]), "-db-2", "the only one that is unwell does too");
    unwell[1] = pod(1, "new", Is::Starting);
    assert_eq!(steps(&one, &unwell[..3]), "", "the first one that is unwell is waited for");
    unwell[0] = pod(0, "new", Is::Starting);
    assert_eq!(steps(&one, &unwell), "", "and one that stays before all");
    assert_eq!(steps(&set(0, json!({})), &ready[..1]), "-db-0");
}

#[test]
fn a_rolling_update_goes_from_the_last_to_the_first_down_to_the_partition() {
    let three = set(3, json!({}));
    let old = [0, 1, 2].map(|ordinal| pod(ordinal, "old", Is::Ready));
    assert_eq!(steps(&three, &old), "-db-2");
    let mut half = old.clone();
    half[2] = pod(2, "new", Is::Starting);
    assert_eq!(steps(&three, &half), "");
    half[2] = pod(2, "new", Is::Ready);
    assert_eq!(steps(&three, &half), "-db-1");
    let partitioned =
        set(3, json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}));
    assert_eq!(steps(&partitioned, &half), "");
    assert_eq!(
        steps(&partitioned, &[pod(0, "old", Is::Ready)]),
        "+db-1:old",
        "below it pods stay what they were"
    );
    let by_hand = set(3, json!({"updateStrategy": {"type": "OnDelete"}}));
    assert_eq!(steps(&by_hand, &old), "");
    assert_eq!(steps(&by_hand, &old[..2]), "+db-2:new");
    let faster = set(
        3,
        json!({
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}},
        }),
    );
    assert_eq!(steps(&faster, &old), "-db-2 -db-1");
    let share = set(
        3,
        json!({
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": "10%"}},
        }),
    );
    assert_eq!(steps(&share, &old), "-db-2");
}

#[test]
fn without_a_partition_pods_that_are_not_updated_come_back_as_they_were() {
    let mut two = set(2, json!({"updateStrategy": {"type": "RollingUpdate"}}));
    two.status.get_or_insert_default().current_replicas = Some(1);
    assert_eq!(steps(&two, &[pod(1, "new", Is::Ready)]), "+db-0:old");
}

#[test]
fn the_status_counts_and_says_when_an_update_is_done() {
    let three = set(3, json!({}));
    let half = [pod(0, "old", Is::Ready), pod(1, "old", Is::Leaving), pod(2, "new", Is::Ready)];
    let status = planned(&three, &half, &[]).status;
    assert_eq!(status.observed_generation, Some(4));
    assert_eq!((status.replicas, status.ready_replicas), (3, Some(2)));
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(1), Some(1)));
    assert_eq!(
        (status.current_revision.as_deref(), status.update_revision.as_deref()),
        (Some("old"), Some("new"))
    );
    let done = [0, 1, 2].map(|ordinal| pod(ordinal, "new", Is::Ready));
    let status = planned(&three, &done, &[]).status;
    assert_eq!((status.current_replicas, status.current_revision.as_deref()), (Some(3), Some("new")));
}

#[test]
fn a_pod_has_its_claims_before_it_comes_and_waits_for_those_that_go() {
    let with_claims = |policy: Value| {
        let template = json!([{"metadata": {"name": "data"}, "spec": {}}]);
        set(2, json!({"volumeClaimTemplates": template, "persistentVolumeClaimRetentionPolicy": policy}))
    };
    let plain = with_claims(json!({"whenDeleted": "Retain", "whenScaled": "Retain"}));
    let plan = planned(&plain, &[], &[]);
    assert_eq!(actions(&plan), "+data-db-0 +db-0:new");
    assert_eq!(
        actions(&planned(&plain, &[], &[claim("data-db-0", json!({}))])),
        "+db-0:new",
        "it is used again"
    );
    let going = claim("data-db-0", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(actions(&planned(&plain, &[], &[going])), "");
    assert_eq!(actions(&planned(&plain, &[pod(0, "new", Is::Starting)], &[])), "+data-db-0");

    let scaled = with_claims(json!({"whenDeleted": "Retain", "whenScaled": "Delete"}));
    let left =
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "before"}]});
    assert_eq!(
        actions(&planned(&scaled, &[], &[claim("data-db-0", left)])),
        "",
        "it goes with the pod before"
    );
    let pods = [0, 1, 2].map(|ordinal| pod(ordinal, "new", Is::Ready));
    let claims = [0, 1, 2].map(|ordinal| claim(&format!("data-db-{ordinal}"), json!({})));
    assert_eq!(actions(&planned(&scaled, &pods, &claims)), "own data-db-2 -db-2");
    let deleted = with_claims(json!({"whenDeleted": "Delete", "whenScaled": "Retain"}));
    assert_eq!(actions(&planned(&deleted, &pods[..2], &claims)), "own data-db-0 own data-db-1");
    let Action::CreateClaim { claim, .. } = &planned(&deleted, &[], &[]).actions[0] else {
        panic!("no claim")
    };
    assert_eq!(claim.owner_references()[0].uid, "set");
}

#[test]
fn an_adopted_pod_gets_its_labels_and_a_set_that_goes_is_left_alone() {
    let mut bare = pod(0, "new", Is::Ready);
    bare.labels_mut().remove(POD_NAME);
    assert_eq!(steps(&set(1, json!({})), &[bare]), "label db-0");
    let mut going = set(3, json!({}));
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert_eq!(steps(&going, &[]), "");
}
