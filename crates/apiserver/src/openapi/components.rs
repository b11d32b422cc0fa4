//! The component schemas that the paths of one group and version refer to.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::custom;
use crate::builtin::definitions::{OBJECT_META, REF_PREFIX, definitions, name_of};
use crate::catalog::Listing;
use crate::discovery::REVIEWS;
use crate::resource::Resource;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const API_VERSION_TEXT: &str = "APIVersion defines the versioned schema of this representation of an object.";
const KIND_TEXT: &str = "Kind is a string value representing the REST resource this object represents.";

/// The name of a kind's component: a built-in definition, or the group's labels in reverse.
pub(super) fn component(group: &str, version: &str, kind: &str) -> String {
    if let Some(name) = name_of(group, version, kind) {
        return name.to_owned();
    }
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// The name of the component of a resource's list.
pub(super) fn list_component(resource: &Resource) -> String {
    let item = component(&resource.group, &resource.version, &resource.kind);
    let package = item.strip_suffix(&resource.kind).unwrap_or(&item);
    format!("{package}{}", resource.list_kind)
}

/// A `$ref` to a component.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{REF_PREFIX}{name}") })
}

/// A `$ref` to a type that all kinds share: `Status`, `DeleteOptions`.
pub(super) fn meta_reference(kind: &str) -> Value {
    reference(&format!("{META}.{kind}"))
}

/// Every component of a group and version, with whatever they refer to.
pub(super) fn of(group: &str, version: &str, listing: &Listing) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut wanted: BTreeSet<String> =
        ["DeleteOptions", "Patch", "Status"].iter().map(|kind| format!("{META}.{kind}")).collect();
    for resource in listing.iter().filter(|r| r.group == group && r.version == version) {
        let name = component(group, version, &resource.kind);
        if definitions().contains_key(&name) {
            wanted.insert(name);
        } else {
            schemas.insert(name, custom_kind(resource));
        }
        schemas.insert(list_component(resource), list(resource));
        if resource.subresources.scale.is_some() {
            wanted.extend(name_of("autoscaling", "v1", "Scale").map(str::to_owned));
        }
        if resource.subresources.others.iter().any(|part| part == "token") {
            wanted.extend(name_of("authentication.k8s.io", "v1", "TokenRequest").map(str::to_owned));
        }
    }
    for review in REVIEWS.iter().filter(|r| r.group == group && r.version == version) {
        wanted.insert(component(group, version, review.kind));
    }
    for schema in schemas.values() {
        references(schema, &mut wanted);
    }
    while let Some(name) = wanted.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        if let Some(schema) = definitions().get(&name) {
            references(schema, &mut wanted);
            schemas.insert(name, schema.clone());
        }
    }
    schemas
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) =
                map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REF_PREFIX))
            {
                into.insert(name.to_owned());
            }
            map.values().for_each(|value| references(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

fn gvk(resource: &Resource, kind: &str) -> Value {
    json!([{ "group": resource.group, "version": resource.version, "kind": kind }])
}

fn described(name: &str, description: &str) -> Value {
    json!({ "allOf": [reference(name)], "description": description })
}

/// A custom kind's own schema with the fields that every object has.
fn custom_kind(resource: &Resource) -> Value {
    let mut schema = custom::schema(&resource.schema.root);
    schema["type"] = "object".into();
    schema["properties"]["apiVersion"] = json!({ "type": "string", "description": API_VERSION_TEXT });
    schema["properties"]["kind"] = json!({ "type": "string", "description": KIND_TEXT });
    schema["properties"]["metadata"] = described(OBJECT_META, "Standard object's metadata.");
    schema["x-kubernetes-group-version-kind"] = gvk(resource, &resource.kind);
    schema
}

fn list(resource: &Resource) -> Value {
    let item = component(&resource.group, &resource.version, &resource.kind);
    let list_meta = format!("{META}.ListMeta");
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string", "description": API_VERSION_TEXT },
            "kind": { "type": "string", "description": KIND_TEXT },
            "metadata": described(&list_meta, "Standard list metadata."),
            "items": {
                "type": "array", "items": reference(&item),
                "description": format!("List of {}.", resource.plural),
            },
        },
        "x-kubernetes-group-version-kind": gvk(resource, &resource.list_kind),
    })
}
