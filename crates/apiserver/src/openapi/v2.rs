//! One Swagger 2.0 document for everything, made from the v3 documents, for clients that know no other.

use serde_json::{Map, Value, json};

use super::{group_versions, info, v3};
use crate::builtin::definitions::REF_PREFIX;
use crate::catalog::Listing;

pub(super) fn document(listing: &Listing) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for (group, version) in group_versions(listing) {
        let mut document = v3::document(&group, &version, listing);
        if let Value::Object(items) = document["paths"].take() {
            paths.extend(items.into_iter().map(|(path, item)| (path, path_item(item))));
        }
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            definitions.extend(schemas.into_iter().map(|(name, value)| (name, schema(value))));
        }
    }
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {
            "BearerToken": {
                "type": "apiKey", "in": "header", "name": "authorization",
                "description": "Bearer Token authentication",
            },
        },
        "security": [{ "BearerToken": [] }],
    })
}

fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    item.into_iter()
        .map(|(key, value)| match (key.as_str(), value) {
            ("parameters", Value::Array(list)) => (key, list.into_iter().map(parameter).collect()),
            (_, value) => (key, operation(value)),
        })
        .collect::<Map<_, _>>()
        .into()
}

/// In version 2 the type of a parameter stands beside its name.
fn parameter(mut parameter: Value) -> Value {
    if let Value::Object(schema) = parameter["schema"].take()
        && let Some(map) = parameter.as_object_mut()
    {
        map.remove("schema");
        map.extend(schema);
    }
    parameter
}

fn operation(mut operation: Value) -> Value {
    let Value::Array(list) = operation["parameters"].take() else {
        return operation;
    };
    let mut parameters: Vec<Value> = list.into_iter().map(parameter).collect();
    let body = operation.as_object_mut().and_then(|map| map.remove("requestBody"));
    if let Some(mut body) = body
        && let Value::Object(content) = body["content"].take()
    {
        operation["consumes"] = content.keys().cloned().collect();
        if let Some(mut first) = content.into_iter().next().map(|(_, value)| value) {
            parameters.push(json!({
                "name": "body", "in": "body", "required": body["required"] == true,
                "schema": schema(first["schema"].take()),
            }));
        }
    }
    operation["parameters"] = parameters.into();
    let mut produces = Vec::new();
    if let Some(responses) = operation["responses"].as_object_mut() {
        for response in responses.values_mut() {
            let content = response.as_object_mut().and_then(|map| map.remove("content"));
            let Some(Value::Object(content)) = content else {
                continue;
            };
            if let Some((media_type, mut value)) = content.into_iter().next() {
                response["schema"] = schema(value["schema"].take());
                if !produces.contains(&media_type) {
                    produces.push(media_type);
                }
            }
        }
    }
    operation["produces"] = produces.into();
    operation
}

/// Version 2 has no alternatives and no null.
fn schema(value: Value) -> Value {
    let Value::Object(mut map) = value else {
        return value;
    };
    let had_choice = ["oneOf", "anyOf", "not", "nullable"].map(|key| map.remove(key).is_some());
    if had_choice[0] && map.get("x-kubernetes-int-or-string").is_some() {
        map.insert("type".into(), "string".into());
    }
    if let Some(Value::Array(parts)) = map.remove("allOf")
        && let [part] = &parts[..]
        && let Some(reference) = part.get("$ref")
    {
        map.insert("$ref".into(), reference.clone());
    }
    map.into_iter()
        .map(|(key, value)| {
            let value = match (key.as_str(), value) {
                ("$ref", Value::String(name)) => name.replacen(REF_PREFIX, "#/definitions/", 1).into(),
                ("properties", Value::Object(fields)) => fields
                    .into_iter()
                    .map(|(name, value)| (name, schema(value)))
                    .collect::<Map<_, _>>()
                    .into(),
                ("items" | "additionalProperties", value) => schema(value),
                (_, value) => value,
            };
            (key, value)
        })
        .collect::<Map<_, _>>()
        .into()
}
