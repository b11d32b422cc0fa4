//! `kubectl get`: tables, other outputs, selectors, order, pages.

use causeway_testkit::kubectl::Kubectl;

use crate::objects::{config_map, deployment, pod};
use crate::peer::shared;

/// Three ConfigMaps with labels.
fn fruit(namespace: &str) -> Kubectl {
    let kubectl = shared().namespace(namespace);
    let one = |name: &str, labels: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{{labels}}}}}\ndata: {{size: '{}'}}\n---\n",
            name.len()
        )
    };
    let all = [
        one("apple", "kind: fruit, colour: red"),
        one("banana", "kind: fruit, colour: yellow"),
        one("carrot", "kind: root"),
    ];
    kubectl.apply(&all.concat()).ok();
    kubectl
}

fn names(kubectl: &Kubectl, args: &[&str]) -> Vec<String> {
    let mut all = vec!["get", "configmap", "-o", "name"];
    all.extend(args);
    kubectl.ok(&all).lines().map(|line| line.trim_start_matches("configmap/").to_owned()).collect()
}

/// The first line of the table of a kind, columns separated by one space.
fn head(kubectl: &Kubectl, args: &[&str]) -> String {
    let mut all = vec!["get"];
    all.extend(args);
    let table = kubectl.ok(&all);
    table.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn tables_have_the_columns_of_kubernetes() {
    let kubectl = shared().namespace("get-tables");
    let more = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {a: b}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec: {replicas: 0, serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: db}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {nodeSelector: {no: where}, containers: [{name: agent, image: agent}]}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: shut}
spec: {podSelector: {}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: lock}
spec: {holderIdentity: me}
";
    kubectl
        .apply(&[&config_map("settings", "a: b"), "---\n", &deployment("web", 1), "---", more].concat())
        .ok();
    kubectl.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]);
    kubectl.ok(&["autoscale", "deployment", "web", "--max=3"]);
    let expected = [
        ("configmaps", "NAME DATA AGE"),
        ("secrets", "NAME TYPE DATA AGE"),
        ("pods", "NAME READY STATUS RESTARTS AGE"),
        ("services", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE"),
        ("endpoints", "NAME ENDPOINTS AGE"),
        ("endpointslices", "NAME ADDRESSTYPE PORTS ENDPOINTS AGE"),
        ("deployments", "NAME READY UP-TO-DATE AVAILABLE AGE"),
        ("replicasets", "NAME DESIRED CURRENT READY AGE"),
        ("statefulsets", "NAME READY AGE"),
        ("daemonsets", "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE"),
        ("horizontalpodautoscalers", "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE"),
        ("networkpolicies", "NAME POD-SELECTOR AGE"),
        (
            "persistentvolumeclaims",
            "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS VOLUMEATTRIBUTESCLASS AGE",
        ),
        ("roles", "NAME CREATED AT"),
        ("rolebindings", "NAME ROLE AGE"),
        ("leases", "NAME HOLDER AGE"),
        ("serviceaccounts", "NAME AGE"),
        ("events", "LAST SEEN TYPE REASON OBJECT MESSAGE"),
        ("namespaces", "NAME STATUS AGE"),
        ("nodes", "NAME STATUS ROLES AGE VERSION"),
        ("clusterroles", "NAME CREATED AT"),
        ("clusterrolebindings", "NAME ROLE AGE"),
        ("customresourcedefinitions", "NAME CREATED AT"),
    ];
    for (kind, columns) in expected {
        assert_eq!(head(&kubectl, &[kind]), columns, "columns of {kind}");
    }
    assert_eq!(
        head(&kubectl, &["pods", "-o", "wide"]),
        "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
    );
    assert_eq!(
        head(&kubectl, &["deployments", "-o", "wide"]),
        "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR"
    );
    assert_eq!(
        head(&kubectl, &["services", "-o", "wide"]),
        "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR"
    );
    let pods = kubectl.ok(&["get", "pods", "--no-headers"]);
    let cells: Vec<&str> = pods.split_whitespace().collect();
    assert_eq!(cells[1..4], ["1/1", "Running", "0"], "{pods}");
    let all = kubectl.ok(&["get", "all"]);
    for part in
        ["pod/web-", "service/web", "deployment.apps/web", "replicaset.apps/web-", "statefulset.apps/db"]
    {
        assert!(all.contains(part), "get all lacks {part}:\n{all}");
    }
    assert!(all.contains("horizontalpodautoscaler.autoscaling/web"), "{all}");
}

#[test]
fn other_outputs() {
    let kubectl = fruit("get-outputs");
    assert_eq!(kubectl.ok(&["get", "cm", "apple", "-o", "name"]), "configmap/apple\n");
    let yaml = kubectl.ok(&["get", "cm", "apple", "-o", "yaml"]);
    assert!(yaml.starts_with("apiVersion: v1\ndata:\n  size: \"5\"\nkind: ConfigMap\n"), "{yaml}");
    let json = kubectl.ok(&["get", "cm", "apple", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["data"]["size"], "5");
    let paths = kubectl.ok(&["get", "cm", "-l", "kind", "-o", "jsonpath={.items[*].metadata.name}"]);
    assert_eq!(paths, "apple banana carrot");
    let columns = "custom-columns=NAME:.metadata.name,SIZE:.data.size";
    let table = kubectl.ok(&["get", "cm", "-l", "kind=fruit", "-o", columns]);
    assert_eq!(table, "NAME     SIZE\napple    5\nbanana   6\n");
    let labels = kubectl.ok(&["get", "cm", "banana", "-L", "colour", "--no-headers"]);
    assert!(labels.trim_end().ends_with("yellow"), "{labels}");
    let shown = kubectl.ok(&["get", "cm", "carrot", "--show-labels", "--no-headers"]);
    assert!(shown.trim_end().ends_with("kind=root"), "{shown}");
    let missing = kubectl.fails(&["get", "cm", "durian"]);
    assert_eq!(missing, "Error from server (NotFound): configmaps \"durian\" not found\n");
    let unknown = kubectl.fails(&["get", "durians"]);
    assert!(unknown.contains("the server doesn't have a resource type \"durians\""), "{unknown}");
    let empty = kubectl.run(&["get", "pods"]);
    assert_eq!(empty.stderr, "No resources found in get-outputs namespace.\n");
}

#[test]
fn label_selectors_of_every_operator() {
    let kubectl = fruit("get-labels");
    let cases: [(&str, &[&str]); 8] = [
        ("kind=fruit", &["apple", "banana"]),
        ("kind==root", &["carrot"]),
        ("kind,kind!=fruit", &["carrot"]),
        ("colour in (red,green)", &["apple"]),
        ("kind,colour notin (red)", &["banana", "carrot"]),
        ("colour", &["apple", "banana"]),
        ("kind,!colour", &["carrot"]),
        ("kind=fruit,colour=yellow", &["banana"]),
    ];
    for (selector, expected) in cases {
        assert_eq!(names(&kubectl, &["-l", selector]), expected, "{selector}");
    }
    let bad = kubectl.fails(&["get", "cm", "-l", "colour in red"]);
    assert!(bad.contains("unable to parse requirement") || bad.contains("couldn't parse"), "{bad}");
}

#[test]
fn field_selectors() {
    let kubectl = fruit("get-fields");
    assert_eq!(names(&kubectl, &["--field-selector", "metadata.name=banana"]), ["banana"]);
    assert_eq!(
        names(&kubectl, &["-l", "kind", "--field-selector", "metadata.name!=banana"]),
        ["apple", "carrot"]
    );
    kubectl.apply(&pod("here", &["main"])).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/here", "--timeout=60s"]);
    let running = kubectl.ok(&["get", "pods", "--field-selector=status.phase=Running", "-o", "name"]);
    assert_eq!(running, "pod/here\n");
    let elsewhere = kubectl.ok(&["get", "pods", "--field-selector=spec.nodeName=nowhere", "-o", "name"]);
    assert_eq!(elsewhere, "");
    let events = kubectl.ok(&[
        "get",
        "events",
        "--field-selector=involvedObject.name=here,reason=Started",
        "-o",
        "name",
    ]);
    assert!(events.starts_with("event/here."), "{events}");
    let bad = kubectl.fails(&["get", "cm", "--field-selector=data.size=5"]);
    assert!(bad.contains("\"data.size\" is not a known field selector"), "{bad}");
}

#[test]
fn order_pages_and_all_namespaces() {
    let kubectl = fruit("get-pages");
    assert_eq!(
        names(&kubectl, &["-l", "kind", "--sort-by=.metadata.labels.kind"]).last().map(String::as_str),
        Some("carrot")
    );
    let many: String = (0..25).map(|i| config_map(&format!("n{i:02}"), "a: b") + "---\n").collect();
    kubectl.apply(&many).ok();
    let paged = names(&kubectl, &["--chunk-size=4"]);
    assert_eq!(paged, names(&kubectl, &["--chunk-size=0"]));
    assert!(paged.len() >= 28, "{paged:?}");
    let everywhere = kubectl.ok(&["get", "configmap", "-A", "--field-selector=metadata.name=apple"]);
    assert!(everywhere.starts_with("NAMESPACE "), "{everywhere}");
    assert!(everywhere.contains("\nget-pages "), "{everywhere}");
    let raw = kubectl.ok(&["get", "--raw", "/api/v1/namespaces/get-pages/configmaps?limit=2"]);
    let page: serde_json::Value = serde_json::from_str(&raw).unwrap();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
    assert!(page["metadata"]["continue"].is_string(), "{raw}");
    assert!(page["metadata"]["remainingItemCount"].as_u64() >= Some(26), "{raw}");
}
