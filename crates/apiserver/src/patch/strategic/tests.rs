use serde_json::{Value, json};

use super::strategic_merge;
use crate::patch::fixtures::{DEPLOYMENT, SERVICE};

/// Merges on the pod template's spec, where most keyed lists are.
fn pod(target: Value, patch: Value) -> Value {
    let wrap = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    strategic_merge(&wrap(target), &wrap(patch), &DEPLOYMENT).unwrap()["spec"]["template"]["spec"].take()
}

fn containers(target: Value, patch: Value) -> Value {
    pod(json!({"containers": target}), json!({"containers": patch}))["containers"].take()
}

fn deployment(target: Value, patch: Value) -> Value {
    strategic_merge(&target, &patch, &DEPLOYMENT).unwrap()
}

#[test]
fn containers_merge_by_name() {
    let cases = [
        (
            "changes one field of one container",
            json!([{"name": "a", "image": "a:1", "args": ["x"]}, {"name": "b", "image": "b:1"}]),
            json!([{"name": "a", "image": "a:2"}]),
            json!([{"name": "a", "image": "a:2", "args": ["x"]}, {"name": "b", "image": "b:1"}]),
        ),
        (
            "a new container comes before those that are not named",
            json!([{"name": "a"}]),
            json!([{"name": "b", "image": "b:1"}]),
            json!([{"name": "b", "image": "b:1"}, {"name": "a"}]),
        ),
        (
            "plain lists inside are replaced",
            json!([{"name": "a", "args": ["x", "y"]}]),
            json!([{"name": "a", "args": ["z"]}]),
            json!([{"name": "a", "args": ["z"]}]),
        ),
        (
            "null deletes a field",
            json!([{"name": "a", "image": "a:1"}]),
            json!([{"name": "a", "image": null}]),
            json!([{"name": "a"}]),
        ),
        (
            "delete removes the item",
            json!([{"name": "a"}, {"name": "b"}]),
            json!([{"name": "a", "$patch": "delete"}]),
            json!([{"name": "b"}]),
        ),
        (
            "replace takes the patch alone",
            json!([{"name": "a"}, {"name": "b"}]),
            json!([{"name": "c", "image": null}, {"$patch": "replace"}]),
            json!([{"name": "c"}]),
        ),
        (
            "env merges by name, ports by containerPort",
            json!([{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
                "ports": [{"containerPort": 80, "name": "http"}]}]),
            json!([{"name": "a", "env": [{"name": "Y", "value": "3"}], "ports": [{"containerPort": 80, "name": "web"},
                {"containerPort": 443}]}]),
            json!([{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}],
                "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 443}]}]),
        ),
    ];
    for (what, target, patch, expected) in cases {
        assert_eq!(containers(target, patch), expected, "{what}");
    }
}

#[test]
fn element_order_is_enforced() {
    let merged = pod(
        json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
        json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "a", "image": "a:2"}]}),
    );
    assert_eq!(merged, json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a", "image": "a:2"}]}));
    let only_order = pod(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
    );
    assert_eq!(only_order, json!({"containers": [{"name": "b"}, {"name": "a"}]}));
}

#[test]
fn atomic_lists_and_scalars_are_replaced() {
    assert_eq!(
        pod(
            json!({"tolerations": [{"key": "a"}, {"key": "b"}], "terminationGracePeriodSeconds": 30}),
            json!({"tolerations": [{"key": "c"}], "terminationGracePeriodSeconds": 5}),
        ),
        json!({"tolerations": [{"key": "c"}], "terminationGracePeriodSeconds": 5})
    );
}

#[test]
fn finalizers_are_a_set() {
    let target = json!({"metadata": {"finalizers": ["a", "b"]}});
    let add = deployment(target.clone(), json!({"metadata": {"finalizers": ["c", "a"]}}));
    assert_eq!(add, json!({"metadata": {"finalizers": ["c", "a", "b"]}}));
    let remove = deployment(
        target,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]}}),
    );
    assert_eq!(remove, json!({"metadata": {"finalizers": ["b"]}}));
}

#[test]
fn owner_references_merge_by_uid() {
    let merged = deployment(
        json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}),
        json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2", "name": "b"}]}}),
    );
    assert_eq!(merged, json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}]}}));
}

#[test]
fn retain_keys_clears_what_it_does_not_list() {
    let target = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(deployment(target.clone(), patch), json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let unlisted = json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}});
    let error = strategic_merge(&target, &unlisted, &DEPLOYMENT).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "invalid patch format of retainKeys"));
}

#[test]
fn map_directives_replace_and_delete() {
    let target = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    for (labels, expected) in [
        (json!({"$patch": "replace", "c": "3"}), json!({"c": "3"})),
        (json!({"$patch": "delete"}), json!({})),
        (json!({"$patch": "merge", "a": null, "c": "3"}), json!({"b": "2", "c": "3"})),
    ] {
        let merged = deployment(target.clone(), json!({"metadata": {"labels": labels}}));
        assert_eq!(merged["metadata"]["labels"], expected);
    }
}

#[test]
fn new_values_carry_no_directives_and_no_nulls() {
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "a", "$retainKeys": ["name"], "env": [{"name": "X", "$patch": "delete"}],
            "resources": {"limits": {"cpu": null, "$patch": "replace"}}}],
    }}, "strategy": {"$patch": "delete"}}});
    assert_eq!(
        deployment(json!({}), patch),
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "env": [], "resources": {"limits": {}}}]}}}})
    );
}

#[test]
fn refuses_what_cannot_be_merged() {
    let target = json!({"spec": {"ports": [{"port": 80}]}});
    for (patch, message) in [
        (
            json!({"spec": {"ports": [{"name": "web", "targetPort": 1}]}}),
            "map: map[name:web targetPort:1] does not contain declared merge key: port",
        ),
        (json!({"spec": {"$patch": "fold"}}), "unknown patch type: fold in map: map[$patch:fold]"),
        (
            json!({"spec": {"$setElementOrder/ports": [{"port": 1}], "ports": [{"port": 2}]}}),
            "The order in patch list:\n[map[port:2]]\n doesn't match $setElementOrder list:\n[map[port:1]]\n",
        ),
    ] {
        assert_eq!(strategic_merge(&target, &patch, &SERVICE).unwrap_err().message, message);
    }
    assert_eq!(strategic_merge(&target, &json!([]), &SERVICE).unwrap_err().code, 400);
}
