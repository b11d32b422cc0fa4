use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::client::Body;

use super::*;

fn stateful_set(spec: &Value, status: &Value) -> Held {
    let mut spec = spec.clone();
    spec["selector"] = json!({});
    spec["serviceName"] = json!("db");
    spec["template"] = json!({"spec": {"containers": [{"name": "db"}]}});
    let set = json!({"metadata": {"name": "db", "generation": 3}, "spec": spec, "status": status});
    Held::StatefulSet(Arc::new(serde_json::from_value::<StatefulSet>(set).unwrap()))
}

#[test]
fn pods_below_the_partition_are_not_waited_for() {
    let status = json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3});
    let by = |partition: i32| {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        stateful_set(&json!({"replicas": 3, "updateStrategy": strategy}), &status)
    };
    assert!(by(0).template().unwrap().is_rolling);
    assert!(!by(2).template().unwrap().is_rolling);
    assert!(by(2).template().unwrap().is_seen);
}

#[test]
fn a_rollout_that_failed_before_says_nothing_of_the_newest_template() {
    let by = |observed: i64, paused: bool| {
        let failed =
            json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
        let deployment = json!({
            "metadata": {"name": "web", "generation": 3},
            "spec": {"selector": {}, "paused": paused, "template": {"spec": {"containers": [{"name": "web"}]}}},
            "status": {"observedGeneration": observed, "conditions": failed},
        });
        let held = Held::Deployment(Arc::new(serde_json::from_value(deployment).unwrap()));
        held.template().unwrap().is_stuck
    };
    assert!(!by(2, false), "nobody has tried it yet");
    assert!(by(3, false));
    assert!(by(2, true), "nobody will try it");
}

fn workloads() -> Workloads {
    let never = |_: http::Request<Body>| std::future::pending::<Result<http::Response<Body>, http::Error>>();
    Workloads::new(Client::new(tower::service_fn(never), "shop"), "tests")
}

#[tokio::test(start_paused = true)]
async fn whoever_sets_a_container_back_is_answered_ever_more_seldom() {
    let workloads = workloads();
    assert!(!workloads.was_replaced("u"));
    lock(&workloads.memory).entry("u".to_owned()).or_default().keep();
    assert!(workloads.was_replaced("u"), "with or without our annotation");
    for time in 1..=4 {
        let began = Instant::now();
        while !workloads.may_fight("u") {
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert!(began.elapsed() >= Duration::from_secs(1));
        let mut memory = lock(&workloads.memory);
        let memory = memory.get_mut("u").unwrap();
        memory.keep();
        assert_eq!(memory.failures, time, "the next pause may be longer");
    }
    // Nobody wishes it any more.
    assert!(!workloads.may_fight("u"));
    assert!(workloads.again(Instant::now()).is_some());
    workloads.forget_fight("u");
    assert_eq!(workloads.again(Instant::now()), None);
    assert!(!workloads.was_replaced("u"));
    workloads.retain(|_| false);
    assert!(lock(&workloads.memory).is_empty());
}

#[test]
fn the_labels_that_hide_a_pod_are_not_its_own() {
    let labels = |value: &str| BTreeMap::from([("app".to_owned(), value.to_owned())]);
    let hidden = labels("one-pod-swap.causeway");
    assert_eq!(stand_in::own_labels(&hidden, labels("web"), "one-pod-swap"), labels("web"));
    assert_eq!(stand_in::own_labels(&labels("new"), labels("web"), "one-pod-swap"), labels("new"));
}
