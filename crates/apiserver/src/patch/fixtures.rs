//! Small schemas for tests, written as OpenAPI with Kubernetes' extensions.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{Manager, Operation};
use crate::schema::{ListType, MapType, Node, Type};

pub(super) fn schema(openapi: &Value) -> Node {
    let child = |key: &str| openapi.get(key).map(|value| Arc::new(schema(value)));
    let text = |key: &str| openapi[key].as_str().map(ToOwned::to_owned);
    let strings = |key: &str| {
        openapi[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect()
    };
    Node {
        ty: match openapi["type"].as_str() {
            Some("object") => Some(Type::Object),
            Some("array") => Some(Type::Array),
            Some("integer") => Some(Type::Integer),
            Some("string") => Some(Type::String),
            _ => None,
        },
        properties: openapi["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), Arc::new(schema(value))))
            .collect(),
        additional: child("additionalProperties"),
        items: child("items"),
        default: openapi.get("default").cloned(),
        list_type: match openapi["x-kubernetes-list-type"].as_str() {
            Some("map") => ListType::Map(strings("x-kubernetes-list-map-keys")),
            Some("set") => ListType::Set,
            _ => ListType::Atomic,
        },
        map_type: match openapi["x-kubernetes-map-type"].as_str() {
            Some("atomic") => MapType::Atomic,
            _ => MapType::Granular,
        },
        patch_merge_key: text("x-kubernetes-patch-merge-key"),
        patch_strategy: text("x-kubernetes-patch-strategy"),
        ..Node::default()
    }
}

fn keyed(key: &str, items: &Value) -> Value {
    json!({
        "type": "array", "items": items,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
        "x-kubernetes-patch-merge-key": key, "x-kubernetes-patch-strategy": "merge",
    })
}

/// The part of a Deployment's schema that has something to merge.
pub(super) static DEPLOYMENT: LazyLock<Node> = LazyLock::new(|| {
    let s = json!({"type": "string"});
    let labels = json!({"type": "object", "additionalProperties": s});
    let env =
        json!({"type": "object", "properties": {"name": s, "value": s, "valueFrom": {"type": "object"}}});
    let port = json!({"type": "object", "properties": {
        "containerPort": {"type": "integer"}, "name": s, "protocol": {"type": "string", "default": "TCP"},
    }});
    let mut ports = keyed("containerPort", &port);
    ports["x-kubernetes-list-map-keys"] = json!(["containerPort", "protocol"]);
    let container = json!({"type": "object", "properties": {
        "name": s, "image": s, "imagePullPolicy": s, "ports": ports, "env": keyed("name", &env),
        "args": {"type": "array", "items": s},
        "resources": {"type": "object", "properties": {"limits": labels}},
    }});
    let pod = json!({"type": "object", "properties": {
        "containers": keyed("name", &container),
        "nodeSelector": {"type": "object", "additionalProperties": s, "x-kubernetes-map-type": "atomic"},
        "tolerations": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        "terminationGracePeriodSeconds": {"type": "integer"},
    }});
    schema(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "paused": {"type": "boolean"},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
                "properties": {"matchLabels": labels}},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {
                "type": s, "rollingUpdate": {"type": "object"}}},
            "template": {"type": "object", "properties": {
                "metadata": {"type": "object", "properties": {"labels": labels}}, "spec": pod}},
        }},
        "status": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "conditions": keyed("type", &json!({"type": "object", "properties": {"type": s, "status": s}})),
        }},
    }}))
});

/// A Service, whose ports are keyed by port and a protocol that has a default.
pub(super) static SERVICE: LazyLock<Node> = LazyLock::new(|| {
    let s = json!({"type": "string"});
    let port = json!({"type": "object", "properties": {
        "name": s, "port": {"type": "integer"}, "targetPort": {}, "protocol": {"type": "string", "default": "TCP"},
    }});
    let mut ports = keyed("port", &port);
    ports["x-kubernetes-list-map-keys"] = json!(["port", "protocol"]);
    schema(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "ports": ports, "type": s,
        "selector": {"type": "object", "additionalProperties": s, "x-kubernetes-map-type": "atomic"},
        "externalIPs": {"type": "array", "items": s, "x-kubernetes-list-type": "set"},
    }}}}))
});

pub(super) const T1: &str = "2026-01-01T00:00:01Z";
pub(super) const T2: &str = "2026-01-01T00:00:02Z";
pub(super) const T3: &str = "2026-01-01T00:00:03Z";

pub(super) fn applier<'a>(name: &'a str, api_version: &'a str, now: &'a str) -> Manager<'a> {
    Manager { name, operation: Operation::Apply, api_version, subresource: "", now, of_built_in: false }
}

pub(super) fn updater<'a>(name: &'a str, api_version: &'a str, now: &'a str) -> Manager<'a> {
    Manager { operation: Operation::Update, ..applier(name, api_version, now) }
}

/// The `fieldsV1` of a manager's entry, null when it has none.
pub(super) fn owned<'a>(object: &'a Value, manager: &str, operation: &str) -> &'a Value {
    entry(object, manager, operation).map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

pub(super) fn entry<'a>(object: &'a Value, manager: &str, operation: &str) -> Option<&'a Value> {
    object["metadata"]["managedFields"]
        .as_array()?
        .iter()
        .find(|entry| entry["manager"] == manager && entry["operation"] == operation)
}
