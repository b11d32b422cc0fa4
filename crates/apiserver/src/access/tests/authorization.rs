use super::*;

fn user(name: &str) -> User {
    User::new(name, &[AUTHENTICATED])
}

#[test]
fn rules_allow_what_they_say_and_no_more() {
    let (objects, access) = server();
    let rules = json!([
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] },
        { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["*"] },
        { "apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["update"] },
        { "apiGroups": ["apps"], "resources": ["*"], "verbs": ["watch"] },
        { "nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"] },
    ]);
    rbac(&objects, role("", "some", rules));
    rbac(&objects, bind("", "some", "alice"));
    let cases = [
        ("get pods in default", true),
        ("list pods", true),
        ("delete pods in default", false),
        ("get pods/log in default", false),
        ("get pods.apps in default", false),
        ("delete configmaps in default named one", true),
        ("delete configmaps in default named two", false),
        ("list configmaps in default", false),
        ("update deployments/scale.apps in default", true),
        ("update replicationcontrollers/scale in default", true),
        ("update deployments.apps in default", false),
        ("watch deployments.apps", true),
        ("watch deployments/status.apps", true),
        ("watch pods", false),
        ("get /metrics", true),
        ("post /metrics", false),
        ("get /debug/pprof", true),
        ("get /debug", false),
        ("get /metrics/x", false),
        ("get /livez", true),
        ("get /apis", true),
    ];
    for (text, allowed) in cases {
        assert_eq!(access.authorize(&user("alice"), &parse(text)).is_ok(), allowed, "{text}");
    }
}

#[test]
fn a_role_binding_counts_in_its_namespace_only() {
    let (objects, access) = server();
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    rbac(&objects, role("apps", "reader", rules.clone()));
    rbac(&objects, role("", "cluster-reader", rules));
    rbac(&objects, bind("apps", "Role/reader", "alice"));
    rbac(&objects, bind("apps", "cluster-reader", "bob"));
    for name in ["alice", "bob"] {
        assert!(access.authorize(&user(name), &parse("get pods in apps")).is_ok());
        assert!(access.authorize(&user(name), &parse("get pods in default")).is_err());
        assert!(access.authorize(&user(name), &parse("get pods")).is_err());
    }
}

#[test]
fn service_account_subjects_match_their_user() {
    let (objects, access) = server();
    let mut binding = bind("apps", "view", "unused");
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": "robot" }]);
    rbac(&objects, binding);
    let robot = User::service_account("apps", "robot", "");
    assert!(access.authorize(&robot, &parse("list pods in apps")).is_ok());
    let namesake = User::service_account("default", "robot", "");
    assert!(access.authorize(&namesake, &parse("list pods in apps")).is_err());
}

#[test]
fn refusals_are_in_kubernetes_words() {
    let (objects, access) = server();
    let cases = [
        (
            "list pods in default",
            "pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\" in \
            the namespace \"default\"",
        ),
        (
            "list nodes",
            "nodes is forbidden: User \"x\" cannot list resource \"nodes\" in API group \"\" at the \
            cluster scope",
        ),
        (
            "get deployments/scale.apps in default named web",
            "deployments.apps \"web\" is forbidden: User \"x\" \
            cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"default\"",
        ),
        (
            "get namespaces named apps",
            "namespaces \"apps\" is forbidden: User \"x\" cannot get resource \
            \"namespaces\" in API group \"\" in the namespace \"apps\"",
        ),
        ("get /metrics", "forbidden: User \"x\" cannot get path \"/metrics\""),
        ("get /<script>", "forbidden: User \"x\" cannot get path \"/&lt;script&gt;\""),
    ];
    for (text, message) in cases {
        let error = access.authorize(&user("x"), &parse(text)).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (403, message));
    }
    let details = access.authorize(&user("x"), &parse("get deployments.apps named web")).unwrap_err().details;
    let details = details.unwrap();
    assert_eq!(
        (details.kind.as_str(), details.group.as_str(), details.name.as_str()),
        ("deployments", "apps", "web")
    );

    rbac(&objects, bind("", "absent", "x"));
    let error = access.authorize(&user("x"), &parse("list nodes")).unwrap_err();
    assert!(
        error.message.ends_with(
            "at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"absent\" not found"
        ),
        "{}",
        error.message
    );
}

#[test]
fn changes_count_at_once() {
    let (objects, access) = server();
    let ask = || access.authorize(&user("alice"), &parse("list pods in apps")).is_ok();
    assert!(!ask());
    rbac(&objects, bind("apps", "view", "alice"));
    assert!(ask());
    objects.remove("rolebindings", "alice-view");
    assert!(!ask());
}

#[test]
fn masters_need_no_role() {
    let access = Access::new(&Pki::ephemeral().unwrap(), Arc::new(Fake::default()));
    let root = User::new("root", &[SYSTEM_MASTERS]);
    access.authorize(&root, &parse("delete nodes named x")).unwrap();
    access.authorize(&root, &parse("get /metrics")).unwrap();
}

#[test]
fn default_roles_grant_what_their_names_say() {
    let (objects, access) = server();
    for role in ["admin", "edit", "view"] {
        rbac(&objects, bind("apps", role, role));
    }
    // In order: admin, edit, view.
    let cases = [
        ("list pods in apps", [true, true, true]),
        ("list infras.causeway.dev in apps", [true, true, true]),
        ("get proxyservers/status.causeway.dev in apps", [true, true, true]),
        ("get containernetworktunnelproxies/log.causeway.dev in apps", [true, true, true]),
        ("list endpointslices.discovery.k8s.io in apps", [true, true, true]),
        ("create deployments.apps in apps", [true, true, false]),
        ("create proxyservers.causeway.dev in apps", [true, true, false]),
        ("create interceptrequests.causeway.dev in apps", [true, false, false]),
        ("create containernetworks.causeway.dev in apps", [false, false, false]),
        ("patch hostnamegrants.causeway.dev in apps", [false, false, false]),
        ("get hostnamegrants.causeway.dev in apps", [true, true, true]),
        ("update proxyservers/status.causeway.dev in apps", [false, false, false]),
        ("get secrets in apps", [true, true, false]),
        ("create serviceaccounts/token in apps", [true, true, false]),
        ("create rolebindings.rbac.authorization.k8s.io in apps", [true, false, false]),
        ("create selfsubjectaccessreviews.authorization.k8s.io", [true, true, true]),
        ("create domainclaims.causeway.dev", [false, false, false]),
        ("list pods in other", [false, false, false]),
        ("get namespaces named apps", [true, true, true]),
        ("get namespaces named other", [false, false, false]),
        ("list namespaces", [false, false, false]),
    ];
    for (text, expected) in cases {
        let actual = ["admin", "edit", "view"].map(|n| access.authorize(&user(n), &parse(text)).is_ok());
        assert_eq!(actual, expected, "{text}");
    }
}

#[test]
fn default_roles_show_their_aggregated_rules() {
    for role in default_roles() {
        assert_eq!(role["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
        if role["kind"] == "ClusterRole" {
            assert!(!role["rules"].as_array().unwrap().is_empty(), "{}", name(&role));
        }
    }
}

#[test]
fn aggregated_rules_are_shown_when_their_sources_change() {
    let (objects, access) = server();
    assert!(access.stale_aggregates().is_empty());
    let rule = json!({ "apiGroups": ["acme.com"], "resources": ["widgets"], "verbs": ["get"] });
    let mut widgets = role("", "widgets", json!([rule]));
    widgets["metadata"]["labels"] = json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    rbac(&objects, widgets);
    let stale = access.stale_aggregates();
    let mut names: Vec<&str> = stale.iter().map(name).collect();
    names.sort_unstable();
    assert_eq!(names, ["admin", "edit", "view"]);
    for role in stale {
        assert!(role["rules"].as_array().unwrap().contains(&rule), "{}", name(&role));
        rbac(&objects, role);
    }
    assert!(access.stale_aggregates().is_empty());
}

#[test]
fn aggregation_follows_labels_also_in_a_circle() {
    let (objects, access) = server();
    let labelled = |name: &str, label: &str, rules: Value, from: Option<Value>| {
        let mut object = role("", name, rules);
        object["metadata"]["labels"] = json!({ "part": label });
        if let Some(selector) = from {
            object["aggregationRule"] = json!({ "clusterRoleSelectors": [selector] });
        }
        object
    };
    let rules = json!([{ "apiGroups": ["acme.com"], "resources": ["widgets"], "verbs": ["get"] }]);
    rbac(&objects, labelled("leaf", "leaf", rules, None));
    let to_b = json!({ "matchExpressions": [{ "key": "part", "operator": "In", "values": ["b", "leaf"] }] });
    rbac(&objects, labelled("a", "a", json!(null), Some(to_b)));
    rbac(&objects, labelled("b", "b", json!([]), Some(json!({ "matchLabels": { "part": "a" } }))));
    rbac(&objects, bind("", "b", "alice"));
    access.authorize(&user("alice"), &parse("get widgets.acme.com in x")).unwrap();
}
