use serde_json::{Value, json};

use super::{keep_times_if_unchanged, track_update};
use crate::patch::fixtures::{DEPLOYMENT, SERVICE, T1, T2, T3, entry, owned, updater};
use crate::patch::{Manager, apply};

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "1"}, "data": data})
}

fn tracked(live: Option<&Value>, mut new: Value, name: &str, now: &str) -> Value {
    track_update(live, &mut new, &crate::schema::Node::default(), &updater(name, "v1", now));
    new
}

#[test]
fn a_creator_owns_everything_but_identity() {
    let created = tracked(None, config_map(json!({"a": "1", "b": "2"})), "me", T1);
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "me", "operation": "Update", "apiVersion": "v1", "time": T1, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
        }])
    );
}

#[test]
fn lists_are_owned_by_their_keys() {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"finalizers": ["x/y"]},
        "spec": {"ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}});
    track_update(None, &mut service, &SERVICE, &updater("me", "v1", T1));
    assert_eq!(
        owned(&service, "me", "Update"),
        &json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"x/y\"": {}}},
            "f:spec": {
                ".": {},
                "f:ports": {
                    ".": {},
                    "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:protocol": {}},
                },
                "f:selector": {},
            },
        })
    );
}

#[test]
fn a_change_moves_the_field_to_whoever_made_it() {
    let created = tracked(None, config_map(json!({"a": "1", "b": "2"})), "me", T1);
    let mut edited = created.clone();
    edited["data"] = json!({"a": "changed", "b": "2", "c": "3"});
    let edited = tracked(Some(&created), edited, "you", T2);
    assert_eq!(owned(&edited, "me", "Update"), &json!({"f:data": {".": {}, "f:b": {}}}));
    assert_eq!(owned(&edited, "you", "Update"), &json!({"f:data": {"f:a": {}, "f:c": {}}}));
    assert_eq!(entry(&edited, "me", "Update").unwrap()["time"], T1);

    let mut removed = edited.clone();
    removed["data"] = json!({"b": "2", "c": "3"});
    let removed = tracked(Some(&edited), removed, "me", T3);
    assert_eq!(owned(&removed, "you", "Update"), &json!({"f:data": {"f:c": {}}}));
    assert_eq!(entry(&removed, "me", "Update").unwrap()["time"], T1, "a removal adds nothing to own");
}

#[test]
fn nothing_changes_when_nothing_changed() {
    let created = tracked(None, config_map(json!({"a": "1"})), "me", T1);
    assert_eq!(tracked(Some(&created), created.clone(), "you", T2), created);
    // A client that does not know of managedFields leaves them out.
    assert_eq!(tracked(Some(&created), config_map(json!({"a": "1"})), "you", T2), created);
    let mut newer = created.clone();
    newer["metadata"]["resourceVersion"] = json!("77");
    assert_eq!(tracked(Some(&created), newer.clone(), "you", T2), newer);
}

#[test]
fn the_same_manager_adds_to_its_entry() {
    let created = tracked(None, config_map(json!({"a": "1"})), "me", T1);
    let edited = tracked(Some(&created), config_map(json!({"a": "1", "b": "2"})), "me", T2);
    assert_eq!(edited["metadata"]["managedFields"].as_array().unwrap().len(), 1);
    assert_eq!(owned(&edited, "me", "Update"), &json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
    assert_eq!(entry(&edited, "me", "Update").unwrap()["time"], T2);
}

#[test]
fn a_writer_may_reset_but_not_spoil_the_entries() {
    let created = tracked(None, config_map(json!({"a": "1"})), "me", T1);
    for reset in [json!([]), json!([{}])] {
        let mut new = created.clone();
        new["metadata"]["managedFields"] = reset;
        let new = tracked(Some(&created), new, "you", T2);
        assert_eq!(new["metadata"].get("managedFields"), None);
        // Once given up, tracking starts again with the first apply only.
        let again = tracked(Some(&new), config_map(json!({"a": "2"})), "you", T3);
        assert_eq!(again["metadata"].get("managedFields"), None);
    }
    for nonsense in [
        json!([{"manager": "x", "operation": "Steal", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
        json!([{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"data": {}}}]),
        json!("x"),
    ] {
        let mut new = created.clone();
        new["metadata"]["managedFields"] = nonsense.clone();
        assert_eq!(tracked(Some(&created), new, "you", T2), created, "{nonsense}");
    }
    let mut renamed = created.clone();
    renamed["metadata"]["managedFields"][0]["manager"] = json!("renamed");
    let renamed = tracked(Some(&created), renamed, "you", T2);
    assert_eq!(owned(&renamed, "renamed", "Update"), &json!({"f:data": {".": {}, "f:a": {}}}));
    assert_eq!(owned(&renamed, "me", "Update"), &Value::Null);
}

#[test]
fn a_subresource_has_its_own_entry_and_cannot_edit_others() {
    let mut live =
        json!({"apiVersion": "apps/v1", "metadata": {"name": "a", "uid": "1"}, "spec": {"replicas": 1}});
    track_update(None, &mut live, &DEPLOYMENT, &updater("me", "apps/v1", T1));
    let mut new = live.clone();
    new["status"] = json!({"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    new["metadata"]["managedFields"] = json!([]);
    let manager = Manager { subresource: "status", ..updater("me", "apps/v1", T2) };
    track_update(Some(&live), &mut new, &DEPLOYMENT, &manager);
    let entries = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(
        entries[1]["fieldsV1"],
        json!({"f:status": {".": {}, "f:replicas": {},
            "f:conditions": {".": {}, "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:type": {}}}}})
    );
    assert_eq!(entries[0]["fieldsV1"], json!({"f:spec": {".": {}, "f:replicas": {}}}));
}

#[test]
fn the_oldest_updaters_are_merged() {
    let mut live = tracked(None, config_map(json!({"k0": "0"})), "m0", "2026-01-01T00:00:00Z");
    for i in 1..15 {
        let mut new = live.clone();
        new["data"][format!("k{i}")] = json!("x");
        live = tracked(Some(&live), new, &format!("m{i}"), &format!("2026-01-01T00:00:{i:02}Z"));
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    assert_eq!(entries[0]["time"], "2026-01-01T00:00:05Z");
    assert_eq!(
        entries[0]["fieldsV1"],
        json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}, "f:k4": {}, "f:k5": {}}})
    );
    assert_eq!(entries[9]["manager"], "m14");
}

#[test]
fn entries_come_appliers_first_then_by_age() {
    let created = tracked(None, config_map(json!({"a": "1"})), "zed", T1);
    let edited = tracked(Some(&created), config_map(json!({"a": "1", "b": "2"})), "ann", T2);
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"c": "3"}});
    let manager = crate::patch::fixtures::applier("bob", "v1", T3);
    let object = apply(Some(&edited), &applied, &crate::schema::Node::default(), &manager, false).unwrap();
    let names: Vec<_> = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["manager"].as_str())
        .collect();
    assert_eq!(names, [Some("bob"), Some("zed"), Some("ann")]);
}

#[test]
fn new_times_alone_are_not_a_change() {
    let live = tracked(None, config_map(json!({"a": "1"})), "me", T1);
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["time"] = json!(T2);
    keep_times_if_unchanged(&live, &mut new);
    assert_eq!(new, live);
    new["data"]["a"] = json!("2");
    new["metadata"]["managedFields"][0]["time"] = json!(T2);
    keep_times_if_unchanged(&live, &mut new);
    assert_eq!(new["metadata"]["managedFields"][0]["time"], T2);
}
