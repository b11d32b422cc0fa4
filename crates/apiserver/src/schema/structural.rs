//! The rules that make a schema structural, so that pruning and defaulting know every field: checked, in the words
//! of Kubernetes, when a CRD is written.

mod branch;
mod list;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Node, Schema};
use crate::error::FieldError;

/// Where a schema stands; the words for a missing type depend on it.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Keywords that Kubernetes does not support at all.
const UNSUPPORTED: [&str; 7] =
    ["$ref", "id", "$schema", "additionalItems", "patternProperties", "definitions", "dependencies"];

/// Everything that keeps the `openAPIV3Schema` at `path` from being structural.
pub(crate) fn check_structural(path: &str, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(map) = schema.as_object() {
        level(path, map, Level::Root, &mut HashSet::new(), &mut errors);
    }
    errors
}

/// `patterns` holds those that were looked at already: schemas repeat them, and compiling one is slow.
fn level<'s>(
    path: &str,
    schema: &'s Map<String, Value>,
    at: Level,
    patterns: &mut HashSet<&'s str>,
    errors: &mut Vec<FieldError>,
) {
    unsupported(path, schema, errors);
    if text(schema, "pattern").is_some_and(|pattern| patterns.insert(pattern)) {
        check_pattern(path, schema, errors);
    }
    types(path, schema, at, errors);
    metadata(path, schema, at, errors);
    list::check(path, schema, errors);
    branch::check(path, schema, errors);
    default(path, schema, at, errors);
    if let Some(items) = object(schema, "items") {
        level(&format!("{path}.items"), items, Level::Item, patterns, errors);
    }
    for (name, field) in object(schema, "properties").into_iter().flatten() {
        if let Some(field) = field.as_object() {
            level(&format!("{path}.properties[{name}]"), field, Level::Field, patterns, errors);
        }
    }
    if let Some(values) = object(schema, "additionalProperties") {
        level(&format!("{path}.additionalProperties"), values, Level::Field, patterns, errors);
    }
}

fn check_pattern(path: &str, schema: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    if let Some(pattern) = text(schema, "pattern")
        && let Err(error) = super::build_regex(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), &json!(pattern), detail));
    }
}

fn unsupported(path: &str, schema: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    for key in UNSUPPORTED.iter().filter(|key| schema.contains_key(**key)) {
        errors.push(FieldError::forbidden(format!("{path}.{key}"), format!("{key} is not supported")));
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{path}.uniqueItems"), detail));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{path}.items"), detail));
    }
    let additional = schema.get("additionalProperties");
    if additional == Some(&Value::Bool(false)) {
        let detail = "additionalProperties cannot be set to false";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    } else if additional.is_some() && object(schema, "properties").is_some_and(|p| !p.is_empty()) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
}

fn types(path: &str, schema: &Map<String, Value>, at: Level, errors: &mut Vec<FieldError>) {
    let ty = text(schema, "type");
    let place = format!("{path}.type");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let additional = schema.contains_key("additionalProperties");
    if embedded && ty != Some("object") {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(missing_or_invalid(&place, ty, detail));
    } else if ty.is_none() && !int_or_string && !preserve {
        let detail = match at {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(place, detail));
    } else if at == Level::Root && ty.is_some_and(|ty| ty != "object") {
        errors.push(FieldError::invalid(place, &json!(ty), "must be object at the root"));
    } else if int_or_string && ty.is_some() {
        let detail = "must be empty if x-kubernetes-int-or-string is true";
        errors.push(FieldError::invalid(place, &json!(ty), detail));
    }
    if ty == Some("array") && !schema.contains_key("items") {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    if at == Level::Root && additional {
        let detail = "must not be used at the root";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    if embedded && additional {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    if embedded && !preserve && object(schema, "properties").is_none_or(Map::is_empty) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
    for (on, key) in
        [(preserve, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
    {
        if int_or_string && on {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{key}"), &json!(true), detail));
        }
    }
}

/// Type and object metadata have a fixed meaning; a schema may restrict the name and nothing else.
fn metadata(path: &str, schema: &Map<String, Value>, at: Level, errors: &mut Vec<FieldError>) {
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if at != Level::Root && !embedded {
        return;
    }
    let Some(properties) = object(schema, "properties") else {
        return;
    };
    for (name, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let Some(field) = properties.get(name).and_then(Value::as_object) else {
            continue;
        };
        if text(field, "type") != Some(wanted) {
            let place = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(
                place,
                &json!(text(field, "type").unwrap_or_default()),
                format!("must be {wanted}"),
            ));
        }
    }
    let Some(metadata) = properties.get("metadata").and_then(Value::as_object) else {
        return;
    };
    let only_names = object(metadata, "properties")
        .is_none_or(|fields| fields.keys().all(|name| matches!(name.as_str(), "name" | "generateName")));
    let only_plain = metadata.keys().all(|key| {
        matches!(key.as_str(), "type" | "properties" | "description" | "required") || !is_structure(key)
    });
    if at == Level::Root && !(only_names && only_plain) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
    }
}

/// Keywords that give a schema its shape, as opposed to those that only restrict values.
fn is_structure(key: &str) -> bool {
    key.starts_with("x-kubernetes-")
        || matches!(key, "items" | "additionalProperties" | "nullable" | "default")
}

/// A default must itself be what the schema allows.
fn default(path: &str, schema: &Map<String, Value>, at: Level, errors: &mut Vec<FieldError>) {
    let Some(value) = schema.get("default").filter(|v| !v.is_null()) else {
        return;
    };
    let place = format!("{path}.default");
    if at == Level::Root {
        errors.push(FieldError::forbidden(place, "must not be set at the root"));
        return;
    }
    // A schema that is wrong in itself is reported where it is wrong.
    let Ok(node) = Node::parse(path, &Value::Object(schema.clone())) else {
        return;
    };
    // One field around it, so that the value is no root with metadata of its own.
    let field = Node { properties: [("default".to_owned(), Arc::new(node))].into(), ..Node::default() };
    let wrapper = Schema::from_node(Arc::new(field));
    let mut wrapped = json!({ "default": value });
    wrapper.prune(&mut wrapped);
    if &wrapped["default"] != value {
        errors.push(FieldError::invalid(place, value, "must be pruned"));
        return;
    }
    wrapper.default(&mut wrapped);
    for mut error in wrapper.validate(&wrapped, None) {
        if error.path.is_empty() {
            error.path.clone_from(&place);
        } else {
            error.path = format!("{path}.{}", error.path);
        }
        errors.push(error);
    }
}

fn missing_or_invalid(place: &str, found: Option<&str>, detail: &str) -> FieldError {
    match found {
        None => FieldError::required(place, detail),
        Some(found) => FieldError::invalid(place, &json!(found), detail),
    }
}

fn object<'a>(schema: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    schema.get(key)?.as_object()
}

fn text<'a>(schema: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    schema.get(key)?.as_str().filter(|t| !t.is_empty())
}

fn flag(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or_default()
}
