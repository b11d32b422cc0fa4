//! Structural defaulting: absent fields get their schema's default, also inside defaults; a null where none is
//! allowed is replaced by the default, or removed when there is none.

use serde_json::Value;

use super::Node;

/// Applies the defaults below `node` to `value`, in place.
pub(super) fn apply(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A null that may not be and has no default counts as left out.
            map.retain(|key, child| {
                !child.is_null()
                    || node.field(key).is_none_or(|field| field.nullable || field.default.is_some())
            });
            for (name, field) in &node.properties {
                let Some(default) = &field.default else { continue };
                if map.get(name).is_none_or(|v| v.is_null() && !field.nullable) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (key, child) in map {
                if let Some(field) = node.field(key) {
                    replace_null(field, child);
                    apply(field, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items.as_deref() {
                for item in items {
                    replace_null(schema, item);
                    apply(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        default.clone_into(value);
    }
}
