use serde_json::{Value, json};

use super::Workload;
use crate::resource::Strategy;

const ALL: [Workload; 4] =
    [Workload::Deployment, Workload::ReplicaSet, Workload::StatefulSet, Workload::DaemonSet];

fn good(kind: Workload) -> Value {
    let mut object = json!({"spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    }});
    kind.default(&mut object);
    object
}

fn errors(kind: Workload, new: &Value, old: Option<&Value>) -> Vec<String> {
    kind.validate(new, old).iter().map(ToString::to_string).collect()
}

#[test]
fn fills_in_what_each_kind_leaves_out() {
    let want = [
        json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}}),
        json!({"replicas": 1}),
        json!({"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady", "serviceName": "",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}),
        json!({"revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}),
    ];
    for (kind, want) in ALL.into_iter().zip(want) {
        let mut spec = good(kind)["spec"].take();
        let template = spec.as_object_mut().unwrap().remove("template").unwrap();
        assert_eq!(template["spec"]["restartPolicy"], "Always");
        assert_eq!(template["spec"]["containers"][0]["imagePullPolicy"], "Always");
        assert!(template["spec"]["enableServiceLinks"].is_null(), "a default of pods alone");
        spec.as_object_mut().unwrap().remove("selector");
        assert_eq!(spec, want, "{kind:?}");
    }
}

#[test]
fn accepts_good_workloads() {
    for kind in ALL {
        assert_eq!(errors(kind, &good(kind), None), Vec::<String>::new(), "{kind:?}");
    }
}

#[test]
fn refuses_bad_workloads_in_kubernetes_words() {
    use Workload::{DaemonSet, Deployment, StatefulSet};
    let cases = [
        (Deployment, "/spec/selector", Value::Null, "spec.selector: Required value"),
        (
            Deployment,
            "/spec/selector",
            json!({}),
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
        ),
        (
            Deployment,
            "/spec/template/metadata/labels/app",
            json!("b"),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not match template `labels`",
        ),
        (
            Deployment,
            "/spec/template/spec/restartPolicy",
            json!("Never"),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            Deployment,
            "/spec/replicas",
            json!(-1),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            Deployment,
            "/spec/template/spec/containers",
            json!([]),
            "spec.template.spec.containers: Required value",
        ),
        (
            Deployment,
            "/spec/strategy/type",
            json!("Recreate"),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            Deployment,
            "/spec/strategy/rollingUpdate",
            json!({"maxSurge": 0, "maxUnavailable": "0%"}),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
        ),
        (
            Deployment,
            "/spec/strategy/rollingUpdate/maxUnavailable",
            json!("101%"),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        ),
        (
            Deployment,
            "/spec/progressDeadlineSeconds",
            json!(0),
            "spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds",
        ),
        (
            StatefulSet,
            "/spec/podManagementPolicy",
            json!("Any"),
            "spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'",
        ),
        (
            DaemonSet,
            "/spec/updateStrategy/rollingUpdate/maxSurge",
            json!(1),
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ),
    ];
    for (kind, path, value, want) in cases {
        let mut object = good(kind);
        *object.pointer_mut(path).unwrap() = value;
        let got = errors(kind, &object, None);
        assert!(got.iter().any(|e| e == want), "{path}: {got:?}");
    }
}

#[test]
fn the_selector_stays() {
    for kind in ALL {
        let old = good(kind);
        let mut new = old.clone();
        new["spec"]["selector"]["matchLabels"]["b"] = "c".into();
        new["spec"]["template"]["metadata"]["labels"]["b"] = "c".into();
        let got = errors(kind, &new, Some(&old));
        assert_eq!(
            got,
            [
                "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"a\",\"b\":\"c\"}}: field is immutable"
            ]
        );
    }
}

#[test]
fn claim_templates_can_be_mounted() {
    let mut object = good(Workload::StatefulSet);
    object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let mount = json!([{"name": "data", "mountPath": "/data"}]);
    object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mount;
    assert_eq!(errors(Workload::StatefulSet, &object, None), Vec::<String>::new());
}
