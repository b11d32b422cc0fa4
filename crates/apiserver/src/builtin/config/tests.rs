use serde_json::{Value, json};

use super::{ConfigMap, Secret};
use crate::resource::Strategy;

fn errors(strategy: &dyn Strategy, new: &Value, old: Option<&Value>) -> Vec<String> {
    strategy.validate(new, old).iter().map(ToString::to_string).collect()
}

#[test]
fn string_data_wins_over_data_and_is_not_kept() {
    let mut secret = json!({"data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new"}});
    Secret.default(&mut secret);
    assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "bmV3", "b": "Yg=="}}));
}

#[test]
fn refuses_bad_content_in_kubernetes_words() {
    let big = "x".repeat(1024 * 1024 + 1);
    let cases: [(&dyn Strategy, Value, &str); 8] = [
        (
            &ConfigMap,
            json!({"data": {"a b": ""}}),
            "data[a b]: Invalid value: \"a b\": a valid config key must consist of",
        ),
        (
            &ConfigMap,
            json!({"data": {"..a": ""}}),
            "data[..a]: Invalid value: \"..a\": must not start with '..'",
        ),
        (
            &ConfigMap,
            json!({"data": {"a": ""}, "binaryData": {"a": ""}}),
            "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
        ),
        (&ConfigMap, json!({"data": {"a": big}}), "<nil>: Too long: may not be more than 1048576 bytes"),
        (&Secret, json!({"data": {"a": "%"}}), "data[a]: Invalid value: \"<value omitted>\": must be base64"),
        (
            &Secret,
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
            "data[tls.key]: Required value",
        ),
        (&Secret, json!({"type": "kubernetes.io/basic-auth"}), "data[username]: Required value"),
        (
            &Secret,
            json!({"type": "kubernetes.io/service-account-token"}),
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
        ),
    ];
    for (strategy, object, want) in cases {
        let got = errors(strategy, &object, None);
        assert!(got.first().is_some_and(|e| e.starts_with(want)), "{want}: {got:?}");
    }
}

#[test]
fn immutable_content_stays() {
    let old = json!({"immutable": true, "data": {"a": "MQ=="}, "type": "Opaque"});
    let mut changed = old.clone();
    changed["data"]["a"] = "Mg==".into();
    let mut opened = old.clone();
    opened["immutable"] = false.into();
    for strategy in [&ConfigMap as &dyn Strategy, &Secret] {
        assert!(errors(strategy, &old, Some(&old)).is_empty());
        let want = "data: Forbidden: field is immutable when `immutable` is set";
        assert_eq!(errors(strategy, &changed, Some(&old)), [want]);
        let want = "immutable: Forbidden: field is immutable when `immutable` is set";
        assert_eq!(errors(strategy, &opened, Some(&old)), [want]);
    }
    let typed = json!({"type": "example.com/x"});
    assert_eq!(
        errors(&Secret, &typed, Some(&json!({"type": "Opaque"}))),
        ["type: Invalid value: \"example.com/x\": field is immutable"]
    );
}
