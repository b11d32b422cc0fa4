use serde_json::{Value, json};

use super::Pod;
use super::defaults::qos_class;
use crate::resource::Strategy;

fn defaulted(spec: Value) -> Value {
    let mut pod = json!({ "spec": spec });
    Pod.default(&mut pod);
    pod
}

fn errors(new: &Value, old: Option<&Value>) -> Vec<String> {
    Pod.validate(new, old).iter().map(ToString::to_string).collect()
}

fn good() -> Value {
    defaulted(json!({"containers": [{"name": "a", "image": "x:1"}]}))
}

#[test]
fn fills_in_what_a_pod_leaves_out() {
    let pod = defaulted(json!({
        "hostNetwork": true,
        "containers": [{
            "name": "a", "image": "registry:5000/x",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0},
            "readinessProbe": {"grpc": {"port": 80}, "failureThreshold": 5},
            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}}
        }],
        "volumes": [
            {"name": "e"}, {"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s", "defaultMode": 256}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        ]
    }));
    let want = json!({
        "hostNetwork": true, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "securityContext": {},
        "enableServiceLinks": true,
        "containers": [{
            "name": "a", "image": "registry:5000/x", "imagePullPolicy": "Always",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}],
            "livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
                "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "readinessProbe": {"grpc": {"port": 80, "service": ""}, "timeoutSeconds": 1, "periodSeconds": 10,
                "successThreshold": 1, "failureThreshold": 5},
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}
        }],
        "volumes": [
            {"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c", "defaultMode": 420}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 256}},
            {"name": "p", "projected": {"defaultMode": 420,
                "sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}
        ]
    });
    assert_eq!(pod["spec"], want);
}

#[test]
fn pulls_by_tag() {
    let digest = format!("x@sha256:{}", "0".repeat(64));
    for (image, policy) in [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("host:5000/a/x", "Always"),
        ("x:1.2", "IfNotPresent"),
        ("host:5000/a/x:1", "IfNotPresent"),
        (digest.as_str(), "IfNotPresent"),
    ] {
        let pod = defaulted(json!({"containers": [{"image": image}]}));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn accepts_a_plain_pod() {
    assert_eq!(errors(&good(), None), Vec::<String>::new());
}

#[test]
fn refuses_bad_pods_in_kubernetes_words() {
    let container = |extra: Value| {
        let mut container = json!({"name": "a", "image": "x"});
        container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"containers": [container]})
    };
    let cases = [
        (json!({}), "spec.containers: Required value"),
        (json!({"containers": [{"name": "a"}]}), "spec.containers[0].image: Required value"),
        (json!({"containers": [{"image": "a"}]}), "spec.containers[0].name: Required value"),
        (
            json!({"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}),
            "spec.containers[1].name: Duplicate value: \"a\"",
        ),
        (
            json!({"containers": [{"name": "a", "image": "x"}], "restartPolicy": "Sometimes"}),
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            json!({"containers": [{"name": "a", "image": "x"}], "initContainers": [{"name": "i", "image": "x",
            "livenessProbe": {"exec": {"command": ["x"]}}}]}),
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        ),
        (
            container(json!({"ports": [{"containerPort": 70000}]})),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            container(
                json!({"ports": [{"containerPort": 1, "name": "p"}, {"containerPort": 2, "name": "p"}]}),
            ),
            "spec.containers[0].ports[1].name: Duplicate value: \"p\"",
        ),
        (
            container(json!({"env": [{"name": "A=B"}]})),
            "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must",
        ),
        (
            container(
                json!({"env": [{"name": "A", "value": "v", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
            ),
            "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
        ),
        (
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            container(json!({"livenessProbe": {}})),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            container(json!({"readinessProbe": {"tcpSocket": {"port": 1}, "httpGet": {"port": 1}}})),
            "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ),
        (
            container(json!({"livenessProbe": {"tcpSocket": {"port": "http"}, "successThreshold": 2}})),
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            container(json!({"resources": {"limits": {"cpu": "lots"}}})),
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"lots\": quantities must match",
        ),
        (
            json!({"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v", "secret": {"secretName": "s"}, "emptyDir": {}}]}),
            "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
        ),
    ];
    for (spec, want) in cases {
        let got = errors(&defaulted(spec.clone()), None);
        assert!(got.iter().any(|e| e.starts_with(want)), "{spec}: {got:?}");
    }
}

#[test]
fn an_update_may_change_little() {
    let old = good();
    let change = |path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut("/spec").unwrap().pointer_mut(path).unwrap() = value;
        errors(&new, Some(&old))
    };
    let add = |key: &str, value: Value| {
        let mut new = old.clone();
        new["spec"][key] = value;
        errors(&new, Some(&old))
    };
    assert!(change("/containers/0/image", json!("y:2")).is_empty());
    assert!(add("activeDeadlineSeconds", json!(60)).is_empty());
    assert!(add("tolerations", json!([{"operator": "Exists"}])).is_empty());
    assert!(add("nodeName", json!("this-machine")).is_empty());
    let refused = change("/restartPolicy", json!("Never"));
    assert!(
        refused[0]
            .starts_with("spec: Forbidden: pod updates may not change fields other than `spec.containers")
    );
    assert_eq!(
        change("/containers", json!([])).last().unwrap(),
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    );
}

#[test]
fn knows_the_quality_of_service() {
    let both = |amount: &str| json!({"cpu": amount, "memory": "1Gi"});
    for (resources, class) in [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"requests": both("1"), "limits": both("2")}), "Burstable"),
        (json!({"requests": both("1000m"), "limits": both("1")}), "Guaranteed"),
    ] {
        let spec = json!({"containers": [{ "resources": resources }]});
        assert_eq!(qos_class(&spec), class, "{spec}");
    }
}

#[test]
fn a_new_pod_is_pending() {
    let mut pod = good();
    pod["status"] = json!({"phase": "Running"});
    Pod.prepare(&mut pod, None);
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}
