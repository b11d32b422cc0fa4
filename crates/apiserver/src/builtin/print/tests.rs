use serde_json::{Value, json};

use crate::builtin::resources;
use crate::resource::Columns;

/// The row of an object of this resource that was created five minutes ago, without its name and age.
fn row(plural: &str, mut object: Value) -> Vec<String> {
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let resource = resources().into_iter().find(|r| r.plural == plural).unwrap();
    let Columns::Printer(columns, row) = resource.columns else { panic!("{plural} has no columns") };
    let cells = columns.iter().zip(row(&object, now));
    let text = |cell: Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    let shown: Vec<_> = cells.map(|(column, cell)| (column.name, text(cell))).collect();
    assert!(shown.contains(&("Name", "x".to_owned())));
    assert!(shown.iter().all(|(name, cell)| *name != "Age" || cell == "5m"), "{shown:?}");
    shown.into_iter().filter(|(name, _)| !matches!(*name, "Name" | "Age")).map(|(_, cell)| cell).collect()
}

#[test]
fn shows_what_kubectl_users_know() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}]}});
    let selector = json!({"matchLabels": {"app": "x"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"}]});
    let selected = "app=x,!old,tier in (a,b)";
    let cases = [
        (
            "deployments",
            json!({"spec": {"replicas": 3, "template": template, "selector": selector},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}}),
            vec!["1/3", "2", "1", "a,b", "i:1,j:2", selected],
        ),
        (
            "replicasets",
            json!({"spec": {"replicas": 3, "template": template}, "status": {"replicas": 2}}),
            vec!["3", "2", "0", "a,b", "i:1,j:2", "<none>"],
        ),
        (
            "statefulsets",
            json!({"spec": {"replicas": 2, "template": template}}),
            vec!["0/2", "a,b", "i:1,j:2"],
        ),
        (
            "daemonsets",
            json!({"spec": {"template": {"spec": {"nodeSelector": {"b": "2", "a": "1"}}}},
            "status": {"desiredNumberScheduled": 4, "numberReady": 3}}),
            vec!["4", "0", "3", "0", "0", "a=1,b=2", "", "", "<none>"],
        ),
        (
            "services",
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}],
            "selector": {"app": "x"}}}),
            vec!["ClusterIP", "10.0.0.1", "<none>", "80/TCP,53:30053/UDP", "app=x"],
        ),
        (
            "services",
            json!({"spec": {"type": "LoadBalancer"}}),
            vec!["LoadBalancer", "<none>", "<pending>", "<none>", "<none>"],
        ),
        (
            "services",
            json!({"spec": {"type": "LoadBalancer", "externalIPs": ["1.2.3.4"]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}}),
            vec!["LoadBalancer", "<none>", "lb.example,1.2.3.4", "<none>", "<none>"],
        ),
        (
            "services",
            json!({"spec": {"type": "ExternalName", "externalName": "a.b"}}),
            vec!["ExternalName", "<none>", "a.b", "<none>", "<none>"],
        ),
        ("endpoints", json!({}), vec!["<none>"]),
        (
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "fd::2"}],
            "ports": [{"port": 80}, {"port": 81}]}]}),
            vec!["1.1.1.1:80,[fd::2]:80,1.1.1.1:81 + 1 more..."],
        ),
        (
            "endpointslices",
            json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "n"}, {}],
            "endpoints": [{"addresses": ["1.1.1.1"]}]}),
            vec!["IPv4", "80,n,*", "1.1.1.1"],
        ),
        ("endpointslices", json!({"addressType": "IPv4"}), vec!["IPv4", "<unset>", "<unset>"]),
        ("configmaps", json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}), vec!["3"]),
        ("secrets", json!({"type": "Opaque", "data": {"a": ""}}), vec!["Opaque", "1"]),
        ("serviceaccounts", json!({}), vec![]),
        ("namespaces", json!({"status": {"phase": "Active"}}), vec!["Active"]),
        ("leases", json!({"spec": {"holderIdentity": "me"}}), vec!["me"]),
        ("networkpolicies", json!({"spec": {"podSelector": {}}}), vec!["<none>"]),
        (
            "nodes",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
            "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}], "nodeInfo": {"kubeletVersion": "v1"}}}),
            vec![
                "NotReady,SchedulingDisabled",
                "edge,worker",
                "v1",
                "10.1.1.1",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>",
            ],
        ),
        (
            "persistentvolumeclaims",
            json!({"spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode":
            "Block"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}),
            vec!["Bound", "v", "1Gi", "RWO", "fast", "<unset>", "Block"],
        ),
        (
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
            vec!["Role/r", "u, v", "", "n/s"],
        ),
        ("clusterroles", json!({}), vec!["2026-01-01T00:00:00Z"]),
        ("customresourcedefinitions", json!({}), vec!["2026-01-01T00:00:00Z"]),
        (
            "horizontalpodautoscalers",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "minReplicas": 1, "maxReplicas": 5, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                {"type": "Pods", "pods": {"target": {"averageValue": "10"}}}, {"type": "External"}]},
            "status": {"currentReplicas": 2, "currentMetrics": [
                {"resource": {"current": {"averageUtilization": 7}}}]}}),
            vec!["Deployment/d", "cpu: 7%/80%, <unknown>/10 + 1 more...", "1", "5", "2"],
        ),
    ];
    for (plural, object, want) in cases {
        assert_eq!(row(plural, object.clone()), want, "{plural} {object}");
    }
}
