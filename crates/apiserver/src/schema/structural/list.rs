//! What `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type` demand of a schema.

use serde_json::{Map, Value, json};

use super::{flag, missing_or_invalid, object, text};
use crate::error::FieldError;

pub(super) fn check(path: &str, schema: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let keys: Vec<&str> = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let ty = text(schema, "type");
    if list_type.is_some() && ty != Some("array") {
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(missing_or_invalid(&format!("{path}.type"), ty, detail));
    }
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(missing_or_invalid(&format!("{path}.x-kubernetes-list-type"), list_type, detail));
    }
    if text(schema, "x-kubernetes-map-type").is_some() && ty != Some("object") {
        let detail = "must be object if x-kubernetes-map-type is specified";
        errors.push(missing_or_invalid(&format!("{path}.type"), ty, detail));
    }
    let items = object(schema, "items");
    match list_type {
        Some("map") => associative(path, items, &keys, errors),
        Some("set") => {
            if let Some(items) = items {
                set(&format!("{path}.items"), items, errors);
            }
        }
        _ => {}
    }
}

fn associative(path: &str, items: Option<&Map<String, Value>>, keys: &[&str], errors: &mut Vec<FieldError>) {
    let place = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&place, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = items else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    };
    if text(items, "type") != Some("object") {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(missing_or_invalid(&format!("{path}.items.type"), text(items, "type"), detail));
    }
    let required: Vec<&str> = items
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (i, key) in keys.iter().enumerate() {
        if keys[..i].contains(key) {
            errors.push(FieldError::invalid(&place, &json!(keys), "must not contain duplicate entries"));
        }
        let Some(field) = object(items, "properties").and_then(|p| p.get(*key)).and_then(Value::as_object)
        else {
            errors.push(FieldError::invalid(
                &place,
                &json!(keys),
                "entries must all be names of item properties",
            ));
            continue;
        };
        let place = format!("{path}.items.properties[{key}]");
        if matches!(text(field, "type"), Some("array" | "object")) {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(format!("{place}.type"), &field["type"], detail));
        }
        if flag(field, "nullable") {
            let detail = "cannot be nullable when x-kubernetes-list-type is map";
            errors.push(FieldError::forbidden(format!("{place}.nullable"), detail));
        }
        if !required.contains(key) && !field.contains_key("default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                          required property";
            errors.push(FieldError::required(format!("{place}.default"), detail));
        }
    }
}

fn set(path: &str, items: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    if flag(items, "nullable") {
        let detail = "cannot be nullable when x-kubernetes-list-type is set";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    let (key, wanted) = match text(items, "type") {
        Some("object") => ("x-kubernetes-map-type", "atomic"),
        Some("array") => ("x-kubernetes-list-type", "atomic"),
        _ => return,
    };
    let found = text(items, key);
    let fine = found == Some(wanted) || (key == "x-kubernetes-list-type" && found.is_none());
    if !fine {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(missing_or_invalid(&format!("{path}.{key}"), found, detail));
    }
}
