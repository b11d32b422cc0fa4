use super::*;

fn alice() -> User {
    User::new("alice", &["devs", AUTHENTICATED])
}

fn pods(verbs: &[&str]) -> Value {
    json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": verbs }])
}

#[test]
fn a_role_may_not_exceed_its_writers_rights() {
    let (objects, access) = server();
    rbac(&objects, role("", "reader", pods(&["get", "list"])));
    rbac(&objects, bind("apps", "reader", "alice"));
    let check = |object: Value| access.check_escalation(&alice(), "roles", &object, None);

    check(role("apps", "r", pods(&["get"]))).unwrap();
    let error = check(role("apps", "r", pods(&["get", "delete", "update"]))).unwrap_err();
    assert_eq!(error.code, 403);
    assert_eq!(
        error.message,
        "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"alice\" (groups=[\"devs\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"update\"]}"
    );
    check(role("other", "r", pods(&["get"]))).unwrap_err();
    check(role("apps", "r", pods(&["*"]))).unwrap_err();
}

#[test]
fn named_and_wildcard_rights_are_compared_properly() {
    let (objects, access) = server();
    let rules = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["get"] },
        { "apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"] },
        { "nonResourceURLs": ["/debug/*"], "verbs": ["get"] },
    ]);
    rbac(&objects, role("", "some", rules));
    rbac(&objects, bind("", "some", "alice"));
    let granted = |rule: Value| {
        let object = role("", "r", json!([rule]));
        access.check_escalation(&alice(), "clusterroles", &object, None).is_ok()
    };
    let named = |names: Value| json!({ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": names, "verbs": ["get"] });
    assert!(granted(named(json!(["one"]))));
    assert!(!granted(named(json!(["one", "two"]))));
    assert!(!granted(named(json!([]))));
    assert!(granted(json!({ "apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"] })));
    assert!(!granted(json!({ "apiGroups": ["apps"], "resources": ["*"], "verbs": ["get"] })));
    assert!(granted(json!({ "nonResourceURLs": ["/debug/pprof/*"], "verbs": ["get"] })));
    assert!(!granted(json!({ "nonResourceURLs": ["*"], "verbs": ["get"] })));
}

#[test]
fn escalate_and_bind_lift_the_check() {
    let (objects, access) = server();
    let rules = json!([
        { "apiGroups": [policy::RBAC], "resources": ["roles"], "verbs": ["escalate"] },
        { "apiGroups": [policy::RBAC], "resources": ["clusterroles"], "resourceNames": ["view"],
          "verbs": ["bind"] },
    ]);
    rbac(&objects, role("", "granter", rules));
    rbac(&objects, bind("apps", "granter", "alice"));
    access.check_escalation(&alice(), "roles", &role("apps", "r", pods(&["*"])), None).unwrap();
    access.check_escalation(&alice(), "rolebindings", &bind("apps", "view", "bob"), None).unwrap();
    access.check_escalation(&alice(), "rolebindings", &bind("apps", "edit", "bob"), None).unwrap_err();
}

#[test]
fn a_binding_needs_the_rights_of_its_role() {
    let (objects, access) = server();
    rbac(&objects, role("", "reader", pods(&["get"])));
    rbac(&objects, bind("", "reader", "alice"));
    let check = |object: &Value| access.check_escalation(&alice(), "clusterrolebindings", object, None);
    check(&bind("", "reader", "bob")).unwrap();
    let error = check(&bind("", "cluster-admin", "alice")).unwrap_err();
    assert!(
        error.message.ends_with(
            "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
        ),
        "{}",
        error.message
    );
    let error = check(&bind("", "absent", "bob")).unwrap_err();
    assert_eq!(error.message, "clusterroles.rbac.authorization.k8s.io \"absent\" not found");
    assert_eq!(error.code, 404);
}

#[test]
fn labels_of_a_role_may_change_without_its_rights() {
    let (_, access) = server();
    let old = role("apps", "r", pods(&["*"]));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({ "a": "b" });
    access.check_escalation(&alice(), "roles", &new, Some(&old)).unwrap();
    new["rules"] = pods(&["*", "get"]);
    access.check_escalation(&alice(), "roles", &new, Some(&old)).unwrap_err();
}

#[test]
fn aggregation_is_for_cluster_administrators() {
    let (objects, access) = server();
    let mut aggregating = role("", "r", json!([]));
    aggregating["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] });
    let check = || access.check_escalation(&alice(), "clusterroles", &aggregating, None);
    let error = check().unwrap_err();
    assert!(
        error.message.ends_with("must have cluster-admin privileges to use the aggregationRule"),
        "{}",
        error.message
    );
    rbac(&objects, bind("", "cluster-admin", "alice"));
    check().unwrap();
}

#[test]
fn masters_and_other_kinds_pass() {
    let (_, access) = server();
    let root = User::new("root", &[SYSTEM_MASTERS]);
    access.check_escalation(&root, "roles", &role("apps", "r", pods(&["*"])), None).unwrap();
    access.check_escalation(&alice(), "pods", &json!({}), None).unwrap();
}
