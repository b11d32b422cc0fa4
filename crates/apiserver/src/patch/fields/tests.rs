use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Element, Entry, Literal, Set};

fn set(fields: &Value) -> Set {
    Set::from_json(fields).unwrap()
}

#[test]
fn reads_and_writes_the_wire_form() {
    let fields = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"a\"": {}}},
        "f:spec": {
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:list": {"i:0": {}},
        },
    });
    assert_eq!(set(&fields).into_json().to_string(), {
        // Fields come sorted, whatever order they were read in.
        json!({
            "f:metadata": {"f:finalizers": {"v:\"a\"": {}}, "f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:list": {"i:0": {}},
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            },
        })
        .to_string()
    });
    assert_eq!(
        set(&fields).paths(),
        [
            ".metadata.labels",
            ".metadata.finalizers[=\"a\"]",
            ".metadata.labels.app",
            ".spec.list[0]",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].port",
        ]
    );
}

#[test]
fn skips_unknown_elements_and_refuses_broken_ones() {
    assert_eq!(set(&json!({"f:a": {}, "z:new": {}})), set(&json!({"f:a": {}})));
    for broken in
        [json!({"f": {}}), json!({"fa": {}}), json!({"k:{": {}}), json!({"i:x": {}}), json!({"f:a": 1})]
    {
        assert!(Set::from_json(&broken).is_err(), "{broken}");
    }
}

#[test]
fn one_key_in_two_spellings_is_one_element() {
    let fields =
        set(&json!({"f:l": {"k:{\"a\":1,\"b\":2}": {"f:x": {}}, "k:{\"b\":2, \"a\":1}": {"f:y": {}}}}));
    assert_eq!(fields.into_json(), json!({"f:l": {"k:{\"a\":1,\"b\":2}": {"f:x": {}, "f:y": {}}}}));
}

#[test]
fn a_parent_and_its_child_are_different_members() {
    let mut parent_and_child = set(&json!({"f:a": {".": {}, "f:b": {}}}));
    parent_and_child.subtract(&set(&json!({"f:a": {}})));
    assert_eq!(parent_and_child.into_json(), json!({"f:a": {"f:b": {}}}));
}

fn elements() -> impl Strategy<Value = Element> {
    let name = "[a-c.\"/~]{0,3}";
    let literal = prop_oneof![
        any::<i32>().prop_map(|n| Literal(json!(n))),
        name.prop_map(|s| Literal(json!(s))),
        any::<bool>().prop_map(|b| Literal(json!(b))),
    ];
    prop_oneof![
        4 => name.prop_map(Element::Field),
        1 => proptest::collection::btree_map(name, literal.clone(), 1..3)
            .prop_map(|fields| Element::Key(fields.into_iter().collect())),
        1 => literal.prop_map(Element::Value),
        1 => (0_i64..5).prop_map(Element::Index),
    ]
}

fn sets() -> impl Strategy<Value = Set> {
    let leaf = Just(Set::default());
    leaf.prop_recursive(4, 40, 5, |inner| {
        proptest::collection::btree_map(elements(), (any::<bool>(), inner), 0..5).prop_map(|entries| {
            let entry = |(element, (member, children))| (element, Entry { member, children });
            Set::from_entries(entries.into_iter().map(entry).collect())
        })
    })
}

proptest! {
    #[test]
    fn the_wire_form_round_trips(fields in sets()) {
        let text = fields.clone().into_json().to_string();
        prop_assert_eq!(Set::from_json(&serde_json::from_str(&text).unwrap()).unwrap(), fields);
    }

    #[test]
    fn set_operations_agree(a in sets(), b in sets()) {
        let mut union = a.clone();
        union.absorb(b.clone());
        prop_assert!(a.is_subset(&union) && b.is_subset(&union));
        let mut only_a = a.clone();
        only_a.subtract(&b);
        prop_assert!(only_a.intersection(&b).is_empty());
        let mut rebuilt = a.intersection(&b);
        prop_assert!(rebuilt.is_subset(&b));
        rebuilt.absorb(only_a);
        prop_assert_eq!(rebuilt, a);
    }
}
