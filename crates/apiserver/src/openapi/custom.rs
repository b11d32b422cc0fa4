//! A custom kind's schema, back in the words of OpenAPI.

use serde_json::{Map, Value, json};

use crate::schema::{ListType, MapType, Node, Type};

pub(super) fn schema(node: &Node) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), value);
        }
    };
    let flag = |on: bool| on.then_some(Value::Bool(true));
    let nodes = |nodes: &[Node]| (!nodes.is_empty()).then(|| nodes.iter().map(schema).collect::<Value>());

    put("description", node.description.as_ref().map(|text| json!(text)));
    put("type", node.ty.map(|ty| json!(type_name(ty))));
    put("format", node.format.as_ref().map(|format| json!(format)));
    put("nullable", flag(node.nullable));
    put("default", node.default.clone());
    put("enum", (!node.enumeration.is_empty()).then(|| json!(node.enumeration)));
    put("pattern", node.pattern.as_ref().map(|pattern| json!(pattern)));
    put("minimum", node.minimum.map(number));
    put("maximum", node.maximum.map(number));
    put("exclusiveMinimum", flag(node.exclusive_minimum));
    put("exclusiveMaximum", flag(node.exclusive_maximum));
    put("multipleOf", node.multiple_of.map(number));
    put("minLength", node.min_length.map(Value::from));
    put("maxLength", node.max_length.map(Value::from));
    put("minItems", node.min_items.map(Value::from));
    put("maxItems", node.max_items.map(Value::from));
    put("uniqueItems", flag(node.unique_items));
    put("minProperties", node.min_properties.map(Value::from));
    put("maxProperties", node.max_properties.map(Value::from));
    put("required", (!node.required.is_empty()).then(|| json!(node.required)));
    put("items", node.items.as_ref().map(|items| schema(items)));
    put("additionalProperties", node.additional.as_ref().map(|values| schema(values)));
    let properties = node.properties.iter().map(|(name, node)| (name.clone(), schema(node)));
    put("properties", (!node.properties.is_empty()).then(|| Value::Object(properties.collect())));
    put("allOf", nodes(&node.all_of));
    put("anyOf", nodes(&node.any_of));
    put("oneOf", nodes(&node.one_of));
    put("not", node.not.as_ref().map(|not| schema(not)));

    put("x-kubernetes-preserve-unknown-fields", flag(node.preserve_unknown_fields));
    put("x-kubernetes-int-or-string", flag(node.int_or_string));
    put("x-kubernetes-embedded-resource", flag(node.embedded_resource));
    put("x-kubernetes-validations", (!node.validations.is_empty()).then(|| json!(node.validations)));
    match &node.list_type {
        // The default, which a schema need not name.
        ListType::Atomic => {}
        ListType::Set => put("x-kubernetes-list-type", Some("set".into())),
        ListType::Map(keys) => {
            put("x-kubernetes-list-type", Some("map".into()));
            put("x-kubernetes-list-map-keys", Some(json!(keys)));
        }
    }
    if node.map_type == MapType::Atomic {
        put("x-kubernetes-map-type", Some("atomic".into()));
    }
    Value::Object(out)
}

/// Whole numbers without a fraction, as their author wrote them.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Array => "array",
        Type::Boolean => "boolean",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Object => "object",
        Type::String => "string",
    }
}
