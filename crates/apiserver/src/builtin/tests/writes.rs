//! Usual objects through every step of a create.

use serde_json::{Value, json};

use super::find;
use crate::builtin::validate_metadata;

fn create(group: &str, plural: &str, mut object: Value) -> (Value, Vec<String>) {
    let resource = find(group, plural);
    object["metadata"]["name"] = "x".into();
    if resource.namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    resource.schema.prune(&mut object);
    resource.schema.default(&mut object);
    resource.strategy.prepare(&mut object, None);
    resource.strategy.default(&mut object);
    let mut errors = validate_metadata(&object, &resource, None);
    errors.extend(resource.schema.validate(&object, None));
    errors.extend(resource.strategy.validate(&object, None));
    let errors = errors.iter().map(ToString::to_string).collect();
    (object, errors)
}

#[test]
fn usual_objects_are_accepted() {
    let pod = json!({"containers": [{"name": "a", "image": "x:1", "args": ["--v"],
        "ports": [{"containerPort": 80, "name": "http"}],
        "livenessProbe": {"httpGet": {"path": "/z", "port": "http"}},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "env": [{"name": "A", "value": "b"}, {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}], "volumes": [{"name": "v", "configMap": {"name": "c"}}]});
    let workload = json!({"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}});
    let reference = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let samples = [
        ("", "namespaces", json!({})),
        ("", "configmaps", json!({"data": {"a": "b"}})),
        ("", "secrets", json!({"stringData": {"a": "b"}})),
        ("", "serviceaccounts", json!({})),
        (
            "",
            "services",
            json!({"spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
        ),
        ("", "endpoints", json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]})),
        ("", "pods", json!({"spec": pod})),
        ("", "nodes", json!({"status": {"capacity": {"cpu": "2"}}})),
        (
            "",
            "events",
            json!({"involvedObject": reference, "reason": "R", "message": "m", "type": "Normal",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1}),
        ),
        (
            "events.k8s.io",
            "events",
            json!({"regarding": reference, "reason": "R", "note": "m", "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z", "action": "A", "reportingController": "c.example/x",
            "reportingInstance": "i"}),
        ),
        (
            "",
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        ("apps", "deployments", json!({"spec": workload})),
        ("apps", "replicasets", json!({"spec": workload})),
        ("apps", "statefulsets", json!({"spec": workload})),
        ("apps", "daemonsets", json!({"spec": workload})),
        (
            "discovery.k8s.io",
            "endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"],
            "conditions": {"ready": true}}], "ports": [{"port": 80}]}),
        ),
        (
            "coordination.k8s.io",
            "leases",
            json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z"}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"],
            "verbs": ["get"]}]}),
        ),
        (
            "rbac.authorization.k8s.io",
            "clusterrolebindings",
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "Group", "name": "system:masters"}]}),
        ),
        (
            "networking.k8s.io",
            "networkpolicies",
            json!({"spec": {"podSelector": {}, "ingress": [{"from":
            [{"namespaceSelector": {}}], "ports": [{"port": 80}]}]}}),
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef":
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
        ),
    ];
    for (group, plural, object) in samples {
        let (made, errors) = create(group, plural, object);
        assert_eq!(errors, Vec::<String>::new(), "{plural}: {made}");
    }
}
