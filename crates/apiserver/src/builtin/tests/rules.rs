//! Rules and defaults of the families that have few of them.

use serde_json::{Value, json};

use super::find;

fn errors(group: &str, plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    find(group, plural).strategy.validate(object, old).iter().map(ToString::to_string).collect()
}

fn defaulted(group: &str, plural: &str, mut object: Value) -> Value {
    find(group, plural).strategy.default(&mut object);
    object
}

#[test]
fn refuses_bad_objects_in_kubernetes_words() {
    let hpa = ("autoscaling", "horizontalpodautoscalers");
    let policy = ("networking.k8s.io", "networkpolicies");
    let claim = ("", "persistentvolumeclaims");
    let target = json!({"kind": "Deployment", "name": "d"});
    let peer = |peer: Value| json!({"spec": {"ingress": [{"from": [peer]}]}});
    let cases = [
        (
            ("coordination.k8s.io", "leases"),
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            hpa,
            json!({"spec": {"scaleTargetRef": target}}),
            "spec.maxReplicas: Required value: must be set and greater than 0",
        ),
        (
            hpa,
            json!({"spec": {"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": target}}),
            "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
        ),
        (
            hpa,
            json!({"spec": {"minReplicas": 0, "maxReplicas": 2, "scaleTargetRef": target}}),
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
        ),
        (hpa, json!({"spec": {"maxReplicas": 2}}), "spec.scaleTargetRef.kind: Required value"),
        (policy, peer(json!({})), "spec.ingress[0].from[0]: Required value: must specify a peer"),
        (
            policy,
            peer(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}})),
            "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
        ),
        (
            policy,
            peer(json!({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}})),
            "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
        ),
        (
            policy,
            json!({"spec": {"egress": [{"ports": [{"port": 90, "endPort": 80}]}]}}),
            "spec.egress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
        ),
        (
            policy,
            json!({"spec": {"policyTypes": ["Sideways"]}}),
            "spec.policyTypes[0]: Unsupported value: \"Sideways\": supported values: \"Ingress\", \"Egress\"",
        ),
        (
            claim,
            json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}}}),
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            claim,
            json!({"spec": {"accessModes": ["ReadWriteOnce"]}}),
            "spec.resources[storage]: Required value",
        ),
        (
            ("", "nodes"),
            json!({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
            "spec.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ),
    ];
    for ((group, plural), object, want) in cases {
        let got = errors(group, plural, &object, None);
        assert!(got.iter().any(|e| e == want), "{object}: {got:?}");
    }
}

#[test]
fn fills_in_what_objects_leave_out() {
    let policy = |spec: Value| defaulted("networking.k8s.io", "networkpolicies", json!({ "spec": spec }));
    assert_eq!(policy(json!({}))["spec"]["policyTypes"], json!(["Ingress"]));
    let both = policy(json!({"egress": [{"ports": [{"port": 1}]}]}));
    assert_eq!(both["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(both["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    let hpa = defaulted("autoscaling", "horizontalpodautoscalers", json!({"spec": {"behavior": {}}}));
    assert_eq!(hpa["spec"]["minReplicas"], 1);
    assert_eq!(hpa["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    assert_eq!(hpa["spec"]["behavior"]["scaleDown"]["selectPolicy"], "Max");
    let node = defaulted("", "nodes", json!({"status": {"capacity": {"cpu": "2"}}}));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "2"}));
}

#[test]
fn a_claim_changes_only_in_size_once_bound() {
    let claim = |size: &str, phase: &str, volume: &str| {
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume,
            "resources": {"requests": {"storage": size}}}, "status": {"phase": phase}})
    };
    let check = |new: Value, old: Value| errors("", "persistentvolumeclaims", &new, Some(&old));
    assert!(check(claim("1Gi", "Pending", "v"), claim("1Gi", "Pending", "")).is_empty(), "bound once");
    assert!(check(claim("2Gi", "Bound", "v"), claim("1Gi", "Bound", "v")).is_empty(), "grows");
    let moved = check(claim("1Gi", "Bound", "w"), claim("1Gi", "Bound", "v"));
    assert!(moved[0].starts_with("spec: Forbidden: spec is immutable after creation except"), "{moved:?}");
    let shrunk = check(claim("1Gi", "Bound", "v"), claim("2Gi", "Bound", "v"));
    assert_eq!(
        shrunk,
        ["spec.resources.requests.storage: Forbidden: field can not be less than previous value"]
    );
}
