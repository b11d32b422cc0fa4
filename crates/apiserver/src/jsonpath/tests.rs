use serde_json::json;

use super::*;

#[test]
fn finds_what_printer_columns_ask_for() {
    let object = json!({
        "metadata": { "annotations": { "a.b/c": "annotated" }, "labels": { "x.y": "dotted" } },
        "spec": { "ports": [{ "port": 1 }, { "port": 2 }], "name": "n" },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "n": 3 },
            { "type": "Progressing", "status": "False", "n": 5 },
        ]},
    });
    let cases = [
        (".spec.name", json!(["n"])),
        ("spec.name", json!(["n"])),
        ("{.spec.name}", json!(["n"])),
        ("$.spec.name", json!(["n"])),
        (".metadata.annotations['a.b/c']", json!(["annotated"])),
        (r#".metadata.annotations["a.b/c"]"#, json!(["annotated"])),
        (r".metadata.annotations.a\.b/c", json!(["annotated"])),
        (r".metadata.labels.x\.y", json!(["dotted"])),
        (".spec.ports[0].port", json!([1])),
        (".spec.ports[-1].port", json!([2])),
        (".spec.ports[*].port", json!([1, 2])),
        (".spec.ports[7].port", json!([])),
        (".spec.missing.deeper", json!([])),
        (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
        (".status.conditions[?(@.type=='Ready')].status", json!(["True"])),
        (r#".status.conditions[?(@.type == "Ready")].status"#, json!(["True"])),
        (r#".status.conditions[?(@.type!="Ready")].type"#, json!(["Progressing"])),
        (".status.conditions[?(@.n>3)].type", json!(["Progressing"])),
        (".status.conditions[?(@.n<=3)].type", json!(["Ready"])),
        (".status.conditions[?(@.absent)].type", json!([])),
        ("..port", json!([1, 2])),
    ];
    for (path, expected) in cases {
        let parsed = JsonPath::parse(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(json!(parsed.find(&object)), expected, "{path}");
    }
}

#[test]
fn refuses_what_is_not_a_path() {
    for path in [".a[", ".a[x]", ".a['b", ".a[?(@.b=)]", ".a[?(b)]", ".a[0", ".a]", "...a", r".a\"] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}

#[test]
fn names_the_fields_of_a_plain_path_only() {
    assert_eq!(JsonPath::parse(".spec.a").unwrap().fields(), Some(vec!["spec", "a"]));
    assert_eq!(JsonPath::parse(".spec.a[0]").unwrap().fields(), None);
}

proptest::proptest! {
    #[test]
    fn never_panics(text in ".{0,40}") {
        if let Ok(path) = JsonPath::parse(&text) {
            path.find(&json!({ "a": [{ "b": 1 }] }));
        }
    }
}
