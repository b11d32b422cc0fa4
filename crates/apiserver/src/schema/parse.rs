//! From the JSON of an `openAPIV3Schema` to a `Node`. Checks only that each keyword has the right JSON type; what a
//! structural schema may say is checked in `structural`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{ListType, MapType, Node, Type};
use crate::error::FieldError;

/// Deeper schemas are refused: the walks over a schema recurse.
const MAX_DEPTH: usize = 96;

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }
}

impl Node {
    /// Reads one schema; `path` is its place, for the errors.
    pub(crate) fn parse(path: &str, json: &Value) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { errors: Vec::new() };
        let node = reader.node(path, json, 0);
        if reader.errors.is_empty() { Ok(node) } else { Err(reader.errors) }
    }
}

struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    fn node(&mut self, path: &str, json: &Value, depth: usize) -> Node {
        let Some(map) = json.as_object() else {
            self.wrong(path, json, "must be an object");
            return Node::default();
        };
        if depth > MAX_DEPTH {
            let detail = format!("schemas may be nested at most {MAX_DEPTH} levels deep");
            self.errors.push(FieldError::forbidden(path, detail));
            return Node::default();
        }
        let mut node = Node {
            properties: self.properties(path, map, depth),
            additional: self.additional(path, map, depth),
            items: self.child(path, map, "items", depth).map(Arc::new),
            required: self.strings(path, map, "required"),
            nullable: self.flag(path, map, "nullable"),
            default: map.get("default").cloned(),
            format: self.text(path, map, "format").filter(|f| !f.is_empty()),
            pattern: self.text(path, map, "pattern").filter(|p| !p.is_empty()),
            minimum: self.number(path, map, "minimum"),
            maximum: self.number(path, map, "maximum"),
            exclusive_minimum: self.flag(path, map, "exclusiveMinimum"),
            exclusive_maximum: self.flag(path, map, "exclusiveMaximum"),
            multiple_of: self.number(path, map, "multipleOf"),
            min_length: self.count(path, map, "minLength"),
            max_length: self.count(path, map, "maxLength"),
            min_items: self.count(path, map, "minItems"),
            max_items: self.count(path, map, "maxItems"),
            unique_items: self.flag(path, map, "uniqueItems"),
            min_properties: self.count(path, map, "minProperties"),
            max_properties: self.count(path, map, "maxProperties"),
            all_of: self.branches(path, map, "allOf", depth),
            any_of: self.branches(path, map, "anyOf", depth),
            one_of: self.branches(path, map, "oneOf", depth),
            not: self.child(path, map, "not", depth).map(Box::new),
            preserve_unknown_fields: self.flag(path, map, "x-kubernetes-preserve-unknown-fields"),
            int_or_string: self.flag(path, map, "x-kubernetes-int-or-string"),
            embedded_resource: self.flag(path, map, "x-kubernetes-embedded-resource"),
            patch_merge_key: self.text(path, map, "x-kubernetes-patch-merge-key"),
            patch_strategy: self.text(path, map, "x-kubernetes-patch-strategy"),
            enumeration: self.list(path, map, "enum"),
            validations: self.list(path, map, "x-kubernetes-validations"),
            description: self.text(path, map, "description"),
            ..Node::default()
        };
        node.ty = match self.text(path, map, "type").as_deref() {
            None | Some("") => None,
            Some(name) => {
                let ty = Type::from_name(name);
                if ty.is_none() {
                    let allowed = ["array", "boolean", "integer", "number", "object", "string"];
                    let value = Value::from(name);
                    self.errors.push(FieldError::not_supported(format!("{path}.type"), &value, &allowed));
                }
                ty
            }
        };
        let keys = self.strings(path, map, "x-kubernetes-list-map-keys");
        node.list_type = match self.text(path, map, "x-kubernetes-list-type").as_deref() {
            None | Some("" | "atomic") => ListType::Atomic,
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(keys),
            Some(other) => {
                let path = format!("{path}.x-kubernetes-list-type");
                let allowed = ["atomic", "map", "set"];
                self.errors.push(FieldError::not_supported(path, &Value::from(other), &allowed));
                ListType::Atomic
            }
        };
        node.map_type = match self.text(path, map, "x-kubernetes-map-type").as_deref() {
            None | Some("" | "granular") => MapType::Granular,
            Some("atomic") => MapType::Atomic,
            Some(other) => {
                let path = format!("{path}.x-kubernetes-map-type");
                self.errors.push(FieldError::not_supported(
                    path,
                    &Value::from(other),
                    &["atomic", "granular"],
                ));
                MapType::Granular
            }
        };
        node
    }

    fn properties(
        &mut self,
        path: &str,
        map: &Map<String, Value>,
        depth: usize,
    ) -> BTreeMap<String, Arc<Node>> {
        let Some(json) = present(map, "properties") else {
            return BTreeMap::new();
        };
        let path = format!("{path}.properties");
        let Some(fields) = json.as_object() else {
            self.wrong(&path, json, "must be an object");
            return BTreeMap::new();
        };
        fields
            .iter()
            .map(|(name, field)| {
                let node = self.node(&format!("{path}[{name}]"), field, depth + 1);
                (name.clone(), Arc::new(node))
            })
            .collect()
    }

    fn additional(&mut self, path: &str, map: &Map<String, Value>, depth: usize) -> Option<Arc<Node>> {
        match present(map, "additionalProperties")? {
            Value::Bool(false) => None,
            // Any value, and everything inside it, is kept.
            Value::Bool(true) => {
                Some(Arc::new(Node { preserve_unknown_fields: true, nullable: true, ..Node::default() }))
            }
            schema => {
                let path = format!("{path}.additionalProperties");
                Some(Arc::new(self.node(&path, schema, depth + 1)))
            }
        }
    }

    fn child(&mut self, path: &str, map: &Map<String, Value>, key: &str, depth: usize) -> Option<Node> {
        let schema = present(map, key)?;
        Some(self.node(&format!("{path}.{key}"), schema, depth + 1))
    }

    fn branches(&mut self, path: &str, map: &Map<String, Value>, key: &str, depth: usize) -> Vec<Node> {
        let list = self.list(path, map, key);
        list.iter()
            .enumerate()
            .map(|(i, branch)| self.node(&format!("{path}.{key}[{i}]"), branch, depth + 1))
            .collect()
    }

    fn list(&mut self, path: &str, map: &Map<String, Value>, key: &str) -> Vec<Value> {
        match present(map, key) {
            None => Vec::new(),
            Some(Value::Array(list)) => list.clone(),
            Some(other) => {
                self.wrong(&format!("{path}.{key}"), other, "must be an array");
                Vec::new()
            }
        }
    }

    fn strings(&mut self, path: &str, map: &Map<String, Value>, key: &str) -> Vec<String> {
        let list = self.list(path, map, key);
        let mut strings = Vec::with_capacity(list.len());
        for (i, item) in list.iter().enumerate() {
            match item.as_str() {
                Some(text) => strings.push(text.to_owned()),
                None => self.wrong(&format!("{path}.{key}[{i}]"), item, "must be a string"),
            }
        }
        strings
    }

    fn text(&mut self, path: &str, map: &Map<String, Value>, key: &str) -> Option<String> {
        self.scalar(path, map, key, "must be a string", |v| v.as_str().map(str::to_owned))
    }

    fn flag(&mut self, path: &str, map: &Map<String, Value>, key: &str) -> bool {
        self.scalar(path, map, key, "must be a boolean", Value::as_bool).unwrap_or_default()
    }

    fn number(&mut self, path: &str, map: &Map<String, Value>, key: &str) -> Option<f64> {
        self.scalar(path, map, key, "must be a number", Value::as_f64)
    }

    fn count(&mut self, path: &str, map: &Map<String, Value>, key: &str) -> Option<u64> {
        self.scalar(path, map, key, "must be a non-negative integer", Value::as_u64)
    }

    fn scalar<T>(
        &mut self,
        path: &str,
        map: &Map<String, Value>,
        key: &str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = present(map, key)?;
        let result = read(value);
        if result.is_none() {
            self.wrong(&format!("{path}.{key}"), value, expected);
        }
        result
    }

    fn wrong(&mut self, path: &str, value: &Value, expected: &str) {
        self.errors.push(FieldError::invalid(path, value, expected));
    }
}

/// A keyword that is set to null counts as left out.
fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|v| !v.is_null())
}
