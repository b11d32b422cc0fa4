//! The first value whose JSON type can't be what the schema says. Built-in kinds are refused for it before anything
//! else looks at them, as a decoder into typed structures would; null stands for every type's zero value.

use std::fmt;

use serde_json::Value;

use super::{Node, Type};

/// A value of the wrong JSON type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Field names down to the value, without indices.
    pub path: String,
    pub found: &'static str,
    pub wanted: &'static str,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot unmarshal {} into field {} of type {}", self.found, self.path, self.wanted)
    }
}

impl Node {
    /// Finds the first value of the wrong type.
    pub(crate) fn type_mismatch(&self, value: &Value) -> Option<Mismatch> {
        if let Some(wanted) = refused_as(self, value) {
            return Some(Mismatch { path: String::new(), found: type_name(value), wanted });
        }
        match value {
            Value::Array(items) => {
                let node = self.items.as_deref()?;
                items.iter().find_map(|item| node.type_mismatch(item))
            }
            Value::Object(map) => {
                map.iter().find_map(|(name, value)| Some(self.field(name)?.type_mismatch(value)?.below(name)))
            }
            _ => None,
        }
    }
}

impl Mismatch {
    /// The same, seen from the object that has it in the field `name`.
    pub(crate) fn below(mut self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }
}

/// What the value should have been, if it can't be that.
fn refused_as(node: &Node, value: &Value) -> Option<&'static str> {
    let (fits, wanted) = match (node.ty, value) {
        (_, Value::Null) => return None,
        (None, _) if !node.int_or_string => return None,
        (None, _) => (value.is_string() || value.is_number(), "integer or string"),
        (Some(Type::Array), _) => (value.is_array(), "array"),
        (Some(Type::Boolean), _) => (value.is_boolean(), "bool"),
        (Some(Type::Integer), _) => (value.is_i64() || value.is_u64() || is_whole(value), "integer"),
        (Some(Type::Number), _) => (value.is_number(), "number"),
        (Some(Type::Object), _) => (value.is_object(), "object"),
        (Some(Type::String), _) => (value.is_string(), "string"),
    };
    (!fits).then_some(wanted)
}

fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|n| n.fract() == 0.0 && n.abs() < 9e15)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Schema;

    #[test]
    fn names_the_place_and_both_types() {
        let schema = Schema::compile(&json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {"ports": {"type": "array", "items": {
                "type": "object", "properties": {"port": {"type": "integer"}},
            }}},
        }}}))
        .unwrap();
        let with = |port| json!({"spec": {"ports": [{"port": 1}, {"port": port}]}});
        assert_eq!(schema.root.type_mismatch(&with(json!(80))), None);
        assert_eq!(schema.root.type_mismatch(&with(json!(null))), None);
        let found = schema.root.type_mismatch(&with(json!("http"))).unwrap();
        assert_eq!(found.to_string(), "cannot unmarshal string into field spec.ports.port of type integer");
    }
}
