use serde_json::{Value, json};

use super::{name_rule, validate_metadata};
use crate::builtin::resources;
use crate::builtin::syntax::NameRule;

fn errors(plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let resource = resources().into_iter().find(|r| r.plural == plural).unwrap();
    validate_metadata(object, &resource, old).iter().map(ToString::to_string).collect()
}

#[test]
fn refuses_bad_metadata_in_kubernetes_words() {
    let cases = [
        (
            "configmaps",
            json!({"namespace": "n"}),
            "metadata.name: Required value: name or generateName is required",
        ),
        ("configmaps", json!({"name": "a"}), "metadata.namespace: Required value"),
        (
            "nodes",
            json!({"name": "a", "namespace": "b"}),
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
        (
            "configmaps",
            json!({"name": "A_b", "namespace": "n"}),
            "metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain must consist of",
        ),
        (
            "services",
            json!({"name": "1a", "namespace": "n"}),
            "metadata.name: Invalid value: \"1a\": a DNS-1035 label must consist of",
        ),
        (
            "namespaces",
            json!({"name": "a.b"}),
            "metadata.name: Invalid value: \"a.b\": a lowercase RFC 1123 label must consist of",
        ),
        (
            "roles",
            json!({"name": "a/b", "namespace": "n"}),
            "metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "labels": {"a": "-"}}),
            "metadata.labels: Invalid value: \"-\": a valid label must be an empty string or",
        ),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "labels": {"a/b/c": ""}}),
            "metadata.labels: Invalid value: \"a/b/c\": a qualified name must consist of",
        ),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "labels": {"/b": ""}}),
            "metadata.labels: Invalid value: \"/b\": prefix part must be non-empty",
        ),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "annotations": {"a b": ""}}),
            "metadata.annotations: Invalid value: \"a b\": name part must consist of",
        ),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "annotations": {"a": "x".repeat(262_145)}}),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "finalizers": ["a b"]}),
            "metadata.finalizers: Invalid value: \"a b\": name part must consist of",
        ),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "x"}]}),
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ),
    ];
    for (plural, meta, want) in cases {
        let got = errors(plural, &json!({ "metadata": meta }), None);
        assert!(got.len() == 1 && got[0].starts_with(want), "{plural}: {got:?}");
    }
}

#[test]
fn accepts_good_metadata() {
    for (plural, meta) in [
        ("configmaps", json!({"name": "kube-root-ca.crt", "namespace": "n", "generateName": "kube-"})),
        ("clusterroles", json!({"name": "system:node-proxier"})),
        (
            "configmaps",
            json!({"name": "a", "namespace": "n", "annotations": {"Example.com/A": "any thing"},
            "labels": {"app.kubernetes.io/name": "x_y", "empty": ""}, "finalizers": ["foregroundDeletion"]}),
        ),
    ] {
        assert_eq!(errors(plural, &json!({ "metadata": meta }), None), Vec::<String>::new());
    }
}

#[test]
fn only_one_owner_controls() {
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true});
    let object =
        json!({"metadata": {"name": "a", "namespace": "n", "ownerReferences": [owner("x"), owner("y")]}});
    let got = errors("configmaps", &object, None);
    assert!(got[0].ends_with("Found \"true\" in references for Pod/x and Pod/y"), "{got:?}");
}

#[test]
fn identity_does_not_change() {
    let old = json!({"metadata": {"name": "a", "namespace": "n", "uid": "1"}});
    for field in ["name", "namespace", "uid"] {
        let mut new = old.clone();
        new["metadata"][field] = "other".into();
        let want = format!("metadata.{field}: Invalid value: \"other\": field is immutable");
        assert_eq!(errors("configmaps", &new, Some(&old)), [want]);
    }
}

#[test]
fn a_terminating_object_gets_no_new_finalizer() {
    let old = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}});
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["a/b", "c/d"]);
    let got = errors("configmaps", &new, Some(&old));
    assert!(got[0].ends_with("found new finalizers []string{\"c/d\"}"), "{got:?}");
    new["metadata"]["finalizers"] = json!([]);
    assert!(errors("configmaps", &new, Some(&old)).is_empty());
}

#[test]
fn a_name_prefix_may_end_with_a_dash() {
    assert!(name_rule("", "pods").check_prefix("web-").is_empty());
    assert!(NameRule::Dns1035Label.check_prefix("web-").is_empty());
    assert!(!NameRule::Subdomain.check_prefix("Web-").is_empty());
}
