//! What may stand inside `allOf`, `anyOf`, `oneOf` and `not`: restrictions of values, and only of fields that the
//! schema around them declares.

use serde_json::{Map, Value, json};

use super::{check_pattern, flag, object};
use crate::error::FieldError;

/// Keywords that give shape or meaning, and what Kubernetes says about them inside a branch.
const FORBIDDEN: [(&str, &str); 13] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// Checks the branches of one level of the schema proper.
pub(super) fn check(path: &str, schema: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    branches(path, schema, Some(schema), path, flag(schema, "x-kubernetes-int-or-string"), errors);
}

/// `outer` is the level of the schema proper that these branches speak of, and `outer_path` its place.
fn branches(
    path: &str,
    holder: &Map<String, Value>,
    outer: Option<&Map<String, Value>>,
    outer_path: &str,
    int_or_string: bool,
    errors: &mut Vec<FieldError>,
) {
    for key in ["allOf", "anyOf", "oneOf"] {
        let list = holder.get(key).and_then(Value::as_array);
        if int_or_string && key == "anyOf" && list.is_some_and(|list| names_int_and_string(list)) {
            continue;
        }
        for (i, item) in list.into_iter().flatten().enumerate() {
            if let Some(map) = item.as_object() {
                // In `allOf`, the first branch may spell out int-or-string.
                let exempt = int_or_string && key == "allOf" && i == 0;
                branch(&format!("{path}.{key}[{i}]"), map, outer, outer_path, exempt, errors);
            }
        }
    }
    if let Some(map) = object(holder, "not") {
        branch(&format!("{path}.not"), map, outer, outer_path, false, errors);
    }
}

fn names_int_and_string(list: &[Value]) -> bool {
    list == [json!({ "type": "integer" }), json!({ "type": "string" })]
}

fn branch(
    path: &str,
    map: &Map<String, Value>,
    outer: Option<&Map<String, Value>>,
    outer_path: &str,
    exempt: bool,
    errors: &mut Vec<FieldError>,
) {
    let Some(outer) = outer else {
        errors.push(FieldError::required(outer_path, format!("because it is defined in {path}")));
        return;
    };
    for (key, detail) in FORBIDDEN {
        let set = map.get(key).is_some_and(|v| !v.is_null() && v != &json!(false) && v != &json!(""));
        if set {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
        }
    }
    check_pattern(path, map, errors);
    branches(path, map, Some(outer), outer_path, exempt, errors);
    if let Some(items) = object(map, "items") {
        let place = format!("{outer_path}.items");
        branch(&format!("{path}.items"), items, object(outer, "items"), &place, false, errors);
    }
    for (name, field) in object(map, "properties").into_iter().flatten() {
        let place = format!("{path}.properties[{name}]");
        if name == "metadata" {
            errors.push(FieldError::forbidden(&place, "must not be specified in a nested context"));
        }
        let declared = object(outer, "properties").and_then(|p| p.get(name)).and_then(Value::as_object);
        if let Some(field) = field.as_object() {
            let outer_path = format!("{outer_path}.properties[{name}]");
            branch(&place, field, declared, &outer_path, false, errors);
        }
    }
}
