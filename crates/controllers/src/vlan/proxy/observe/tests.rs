use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::framework::kinds::POD;
use crate::vlan::proxy::fixture;

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn pod(name: &str, owner: &str, status: &Value) -> DynamicObject {
    object(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "clusters", "labels": {
            "app": "proxy-server", "causeway.dev/owner-name": owner, "causeway.dev/owner-kind": "ProxyServer", "causeway.dev/replica": "2",
        } },
        "status": status,
    }))
}

#[test]
fn sees_its_own_pods_and_their_reports_only() {
    let mut proxy = fixture::proxy(&json!({}));
    let report = |name: &str| ReplicaStatus { name: name.into(), ..ReplicaStatus::default() };
    proxy.status = Some(causeway_api::ProxyServerStatus {
        replicas: vec![report("lab-2-x"), report("lab-gone")],
        ..Default::default()
    });
    let waiting = json!({ "containerStatuses": [{
        "name": "proxy", "image": "", "imageID": "", "ready": false, "restartCount": 3,
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } },
    }] });
    let children = Children::fixed(&[
        (POD, vec![pod("lab-2-x", "lab", &waiting), pod("other-y", "other", &json!({}))]),
        (DEPLOYMENT, Vec::new()),
        (SERVICE, Vec::new()),
    ]);
    let owner = Owner::of(&proxy).unwrap();
    let observed = observe(&proxy, &owner, &children, &Report::default());
    assert_eq!(
        observed.pods,
        [PodState {
            name: "lab-2-x".into(),
            index: 1,
            is_leaving: false,
            node: None,
            starts_since: None,
            trouble: Some("container proxy is in CrashLoopBackOff: back-off".into()),
        }]
    );
    let reports: Vec<_> = observed.reports.iter().map(|report| report.name.as_str()).collect();
    assert_eq!(reports, ["lab-2-x"]);
}

#[test]
fn a_deployment_carries_traffic_with_any_pod_and_is_out_with_the_latest() {
    let state = |observed: i64, counts: [i32; 3]| {
        let deployment = json!({
            "metadata": { "generation": 2 },
            "status": {
                "observedGeneration": observed,
                "replicas": counts[0], "updatedReplicas": counts[1], "availableReplicas": counts[2],
            },
        });
        let state = deployment_state(&serde_json::from_value(deployment).unwrap(), 0);
        (state.is_available, state.is_rolling)
    };
    assert_eq!(state(2, [1, 1, 1]), (true, false));
    assert_eq!(state(1, [1, 1, 1]), (true, true), "its latest change was not seen yet");
    assert_eq!(state(2, [2, 1, 1]), (true, true), "the old pod is ready, the new one is not");
    assert_eq!(state(2, [1, 0, 1]), (true, true));
    assert_eq!(state(2, [1, 1, 0]), (false, true));
    assert_eq!(state(2, [0, 0, 0]), (false, true));
}
