//! The roles and bindings that a new server starts with, as Kubernetes has them, with Causeway's kinds added.

use serde_json::{Value, json};

use super::policy::{RBAC, stale_aggregates};
use super::{AUTHENTICATED, SYSTEM_MASTERS, UNAUTHENTICATED};
use crate::object::name;

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

/// Namespaced kinds of the group `causeway.dev` that whoever works in a namespace may write.
const CAUSEWAY: &[&str] = &[
    "containernetworktunnelproxies",
    "dhcpservers",
    "dnsservers",
    "gatewayhostnamerequests",
    "gatewayparameters",
    "infras",
    "proxyservers",
    "trafficpolicies",
    "workstations",
];
/// Takes the traffic of others in the namespace: for its administrators.
const INTERCEPTS: &[&str] = &["interceptrequests"];
/// What restrains a namespace, reaches the host, or is between the operator and its pods: only seen from within it.
const RESTRAINTS: &[&str] = &[
    "addressclaims",
    "containernetworks",
    "domainclaims",
    "gatewayplans",
    "hostnamegrants",
    "hostnamezones",
];

/// Bootstrap ClusterRoles and ClusterRoleBindings, each labelled `kubernetes.io/bootstrapping: rbac-defaults`.
pub(crate) fn default_roles() -> Vec<Value> {
    let mut roles = cluster_roles();
    // Shown by `kubectl describe`; the decision itself follows the aggregation rule.
    for shown in stale_aggregates(&roles) {
        if let Some(role) = roles.iter_mut().find(|role| name(role) == name(&shown)) {
            *role = shown;
        }
    }
    roles.extend([
        binding("cluster-admin", &[SYSTEM_MASTERS]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
    ]);
    roles
}

fn cluster_roles() -> Vec<Value> {
    let all_kinds = [CAUSEWAY, INTERCEPTS, RESTRAINTS].concat();
    vec![
        role("cluster-admin", &[], vec![rule(&["*"], &["*"], &["*"]), urls(&["*"], &["*"])]),
        role(
            "system:discovery",
            &[],
            vec![urls(
                &["get"],
                &[
                    "/api",
                    "/api/*",
                    "/apis",
                    "/apis/*",
                    "/healthz",
                    "/livez",
                    "/openapi",
                    "/openapi/*",
                    "/readyz",
                    "/version",
                    "/version/",
                ],
            )],
        ),
        role(
            "system:public-info-viewer",
            &[],
            vec![urls(&["get"], &["/healthz", "/livez", "/readyz", "/version", "/version/"])],
        ),
        role(
            "system:basic-user",
            &[],
            vec![
                rule(
                    &["create"],
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                ),
                rule(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
            ],
        ),
        role(
            "system:auth-delegator",
            &[],
            vec![
                rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
                rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
            ],
        ),
        aggregate("admin", "aggregate-to-admin", &[]),
        aggregate("edit", "aggregate-to-edit", &["aggregate-to-admin"]),
        aggregate("view", "aggregate-to-view", &["aggregate-to-edit"]),
        role(
            "system:aggregate-to-admin",
            &["aggregate-to-admin"],
            vec![
                rule(&["create"], &["authorization.k8s.io"], &["localsubjectaccessreviews"]),
                rule(&all(), &[RBAC], &["rolebindings", "roles"]),
            ],
        ),
        role("system:aggregate-to-edit", &["aggregate-to-edit"], edit_rules()),
        role("system:aggregate-to-view", &["aggregate-to-view"], view_rules()),
        role(
            "causeway:aggregate-to-admin",
            &["aggregate-to-admin"],
            vec![rule(WRITE, &["causeway.dev"], INTERCEPTS)],
        ),
        role(
            "causeway:aggregate-to-edit",
            &["aggregate-to-edit"],
            vec![rule(WRITE, &["causeway.dev"], CAUSEWAY)],
        ),
        role(
            "causeway:aggregate-to-view",
            &["aggregate-to-view"],
            vec![
                rule(READ, &["causeway.dev"], &all_kinds),
                rule(READ, &["causeway.dev"], &with_status(&all_kinds)),
                rule(READ, &["causeway.dev"], &["containernetworktunnelproxies/log"]),
            ],
        ),
    ]
}

fn edit_rules() -> Vec<Value> {
    vec![
        rule(
            READ,
            &[""],
            &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"],
        ),
        rule(&["impersonate"], &[""], &["serviceaccounts"]),
        rule(WRITE, &[""], &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
        rule(&["create"], &[""], &["pods/eviction"]),
        rule(
            WRITE,
            &[""],
            &[
                "configmaps",
                "events",
                "persistentvolumeclaims",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
        ),
        rule(&["create"], &[""], &["serviceaccounts/token"]),
        rule(
            WRITE,
            &["apps"],
            &[
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "replicasets",
                "replicasets/scale",
                "statefulsets",
                "statefulsets/scale",
            ],
        ),
        rule(WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
        rule(WRITE, &["networking.k8s.io"], &["networkpolicies"]),
        rule(&all(), &["coordination.k8s.io"], &["leases"]),
        rule(WRITE, &["gateway.networking.k8s.io"], GATEWAY),
    ]
}

const GATEWAY: &[&str] = &[
    "backendtlspolicies",
    "gateways",
    "grpcroutes",
    "httproutes",
    "listenersets",
    "referencegrants",
    "tcproutes",
    "tlsroutes",
    "udproutes",
];

fn view_rules() -> Vec<Value> {
    vec![
        rule(
            READ,
            &[""],
            &[
                "configmaps",
                "endpoints",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "serviceaccounts",
                "services",
                "services/status",
            ],
        ),
        rule(
            READ,
            &[""],
            &[
                "bindings",
                "events",
                "limitranges",
                "namespaces/status",
                "pods/log",
                "pods/status",
                "resourcequotas",
            ],
        ),
        rule(READ, &[""], &["namespaces"]),
        rule(READ, &["discovery.k8s.io"], &["endpointslices"]),
        rule(
            READ,
            &["apps"],
            &[
                "controllerrevisions",
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "statefulsets",
                "statefulsets/scale",
                "statefulsets/status",
            ],
        ),
        rule(READ, &["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
        rule(READ, &["networking.k8s.io"], &["networkpolicies"]),
        rule(READ, &["gateway.networking.k8s.io"], GATEWAY),
        rule(READ, &["k8s.cni.cncf.io"], &["network-attachment-definitions"]),
    ]
}

fn all() -> Vec<&'static str> {
    let mut verbs = [READ, WRITE].concat();
    verbs.sort_unstable();
    verbs
}

fn with_status(plurals: &[&'static str]) -> Vec<String> {
    plurals.iter().map(|p| format!("{p}/status")).collect()
}

fn rule<R: AsRef<str> + serde::Serialize>(verbs: &[&str], groups: &[&str], resources: &[R]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

fn urls(verbs: &[&str], paths: &[&str]) -> Value {
    json!({ "nonResourceURLs": paths, "verbs": verbs })
}

fn metadata(name: &str, aggregate_to: &[&str]) -> Value {
    let mut labels = json!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
    for target in aggregate_to {
        labels[format!("{RBAC}/{target}")] = json!("true");
    }
    json!({
        "name": name,
        "labels": labels,
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    })
}

fn role(name: &str, aggregate_to: &[&str], rules: Vec<Value>) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": metadata(name, aggregate_to), "rules": rules,
    })
}

fn aggregate(name: &str, from: &str, aggregate_to: &[&str]) -> Value {
    let mut aggregate = role(name, aggregate_to, Vec::new());
    let mut labels = json!({});
    labels[format!("{RBAC}/{from}")] = json!("true");
    aggregate["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": labels }] });
    aggregate
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> =
        groups.iter().map(|g| json!({ "apiGroup": RBAC, "kind": "Group", "name": g })).collect();
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": metadata(role, &[]),
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": subjects,
    })
}
