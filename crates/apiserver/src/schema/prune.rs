//! Removing, or naming, the fields that a schema does not declare. Type and object metadata of the object itself and
//! of embedded resources always stay.

use serde_json::Value;

use super::Node;
use super::path::Path;

/// Removes unknown fields from a whole object.
pub(super) fn prune(root: &Node, object: &mut Value) {
    node(Some(root), object, true, root.preserve_unknown_fields);
}

/// The paths of the fields that `prune` would remove.
pub(super) fn unknown(root: &Node, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    report(Some(root), object, &Path::Root, true, root.preserve_unknown_fields, &mut found);
    found
}

fn is_meta(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}

/// The children of a level: what is declared is pruned by its own schema; the rest stays only when `keep` says so,
/// which holds for this level and, through lists, for the objects directly inside.
fn node(schema: Option<&Node>, value: &mut Value, root: bool, keep: bool) {
    match value {
        Value::Object(map) => {
            let meta = root || schema.is_some_and(|s| s.embedded_resource);
            map.retain(|key, child| {
                if meta && is_meta(key) {
                    return true;
                }
                match schema.and_then(|s| s.field(key)) {
                    Some(field) => {
                        node(Some(field), child, false, field.preserve_unknown_fields);
                        true
                    }
                    None => keep,
                }
            });
        }
        Value::Array(items) => {
            let schema = schema.and_then(|s| s.items.as_deref());
            for item in items {
                if keep && schema.is_none() {
                    continue;
                }
                node(schema, item, false, keep || schema.is_some_and(|s| s.preserve_unknown_fields));
            }
        }
        _ => {}
    }
}

fn report(
    schema: Option<&Node>,
    value: &Value,
    path: &Path<'_>,
    root: bool,
    keep: bool,
    found: &mut Vec<String>,
) {
    match value {
        Value::Object(map) => {
            let meta = root || schema.is_some_and(|s| s.embedded_resource);
            for (key, child) in map {
                if meta && is_meta(key) {
                    continue;
                }
                let path = Path::Field(path, key);
                match schema.and_then(|s| s.field(key)) {
                    Some(field) => {
                        report(Some(field), child, &path, false, field.preserve_unknown_fields, found);
                    }
                    None if keep => {}
                    None => found.push(path.dotted()),
                }
            }
        }
        Value::Array(items) => {
            let schema = schema.and_then(|s| s.items.as_deref());
            for (i, item) in items.iter().enumerate() {
                if keep && schema.is_none() {
                    continue;
                }
                let keep = keep || schema.is_some_and(|s| s.preserve_unknown_fields);
                report(schema, item, &Path::Index(path, i), false, keep, found);
            }
        }
        _ => {}
    }
}
