use serde_json::{Value, json};

use super::{Binding, Role};
use crate::resource::Strategy;

fn errors(strategy: &dyn Strategy, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut new = new.clone();
    strategy.default(&mut new);
    strategy.validate(&new, old).iter().map(ToString::to_string).collect()
}

#[test]
fn refuses_bad_rules_in_kubernetes_words() {
    let role = Role { namespaced: true };
    let cluster = Role { namespaced: false };
    let cases = [
        (
            &role,
            json!({"resources": ["pods"], "apiGroups": [""]}),
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            &role,
            json!({"verbs": ["get"], "apiGroups": [""]}),
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ),
        (
            &role,
            json!({"verbs": ["get"], "resources": ["pods"]}),
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        ),
        (
            &role,
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
        ),
        (
            &cluster,
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}),
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
        ),
    ];
    for (role, rule, want) in cases {
        assert_eq!(errors(role, &json!({"rules": [rule]}), None), [want]);
    }
    let good = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]});
    assert!(errors(&cluster, &good, None).is_empty());
}

#[test]
fn refuses_bad_bindings_in_kubernetes_words() {
    let binding = |role: Value, subject: Value| json!({"roleRef": role, "subjects": [subject]});
    let role = json!({"kind": "ClusterRole", "name": "view"});
    let cluster = Binding { namespaced: false };
    let cases = [
        (
            binding(json!({"kind": "Role", "name": "r"}), json!({"kind": "User", "name": "u"})),
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
        ),
        (
            binding(json!({"kind": "ClusterRole"}), json!({"kind": "User", "name": "u"})),
            "roleRef.name: Required value",
        ),
        (
            binding(role.clone(), json!({"kind": "ServiceAccount", "name": "s"})),
            "subjects[0].namespace: Required value",
        ),
        (
            binding(role.clone(), json!({"kind": "Robot", "name": "s"})),
            "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
        ),
    ];
    for (object, want) in cases {
        assert_eq!(errors(&cluster, &object, None), [want]);
    }
}

#[test]
fn the_role_stays_and_groups_are_filled_in() {
    let mut old = json!({"roleRef": {"kind": "Role", "name": "a"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]});
    let binding = Binding { namespaced: true };
    binding.default(&mut old);
    assert_eq!(old["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(old["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    assert!(old["subjects"][1]["apiGroup"].is_null());
    let mut new = old.clone();
    new["roleRef"]["name"] = "b".into();
    let got = errors(&binding, &new, Some(&old));
    assert!(
        got[0].starts_with("roleRef: Invalid value:") && got[0].ends_with(": field is immutable"),
        "{got:?}"
    );
}
