//! The types whose JSON is not an object of their fields: times, quantities, ports, raw JSON, bare lists and the
//! either-or types of a CRD's schema.

use jiff::Timestamp;
use jiff::fmt::strtime;
use serde_json::{Map, Value};

use super::Fault;

/// What a message's JSON form looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    /// RFC 3339 in whole seconds.
    Time,
    /// RFC 3339 with six digits after the point.
    MicroTime,
    Quantity,
    IntOrString,
    /// The value of the one field.
    Only(&'static str),
    /// The list if there is one, or else the schema.
    SchemaOrList,
    /// The schema if there is one, or else whether anything is allowed.
    SchemaOrBool,
}

impl Shape {
    pub(super) fn of(message: &str) -> Self {
        match message {
            "meta.v1.Time" => Self::Time,
            "meta.v1.MicroTime" => Self::MicroTime,
            "resource.Quantity" => Self::Quantity,
            "intstr.IntOrString" => Self::IntOrString,
            "runtime.RawExtension" | "meta.v1.FieldsV1" | "apiextensions.v1.JSON" => Self::Only("raw"),
            "authentication.v1.ExtraValue" | "authorization.v1.ExtraValue" => Self::Only("items"),
            "apiextensions.v1.JSONSchemaPropsOrArray" | "apiextensions.v1.JSONSchemaPropsOrStringArray" => {
                Self::SchemaOrList
            }
            "apiextensions.v1.JSONSchemaPropsOrBool" => Self::SchemaOrBool,
            _ => Self::Object,
        }
    }
}

/// The JSON form of a message's fields; `None` stands for `null`.
pub(super) fn render(shape: Shape, mut fields: Map<String, Value>) -> Result<Option<Value>, Fault> {
    Ok(match shape {
        Shape::Object => Some(Value::Object(fields)),
        Shape::Time => time(&fields, "%Y-%m-%dT%H:%M:%SZ")?,
        Shape::MicroTime => time(&fields, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Shape::Quantity => Some(fields.remove("string").unwrap_or_else(|| Value::String("0".into()))),
        Shape::IntOrString => {
            let is_text = fields.get("type").is_some_and(|ty| ty == 1);
            fields.remove(if is_text { "strVal" } else { "intVal" })
        }
        Shape::Only(field) => fields.remove(field),
        Shape::SchemaOrList => fields.remove("list").or_else(|| fields.remove("schema")),
        Shape::SchemaOrBool => fields.remove("schema").or_else(|| fields.remove("allows")),
    })
}

/// A time without fields is one that is not set.
fn time(fields: &Map<String, Value>, format: &str) -> Result<Option<Value>, Fault> {
    if fields.is_empty() {
        return Ok(None);
    }
    let part = |name: &str| fields.get(name).and_then(Value::as_i64).unwrap_or_default();
    let nanos = i32::try_from(part("nanos")).map_err(|_| Fault::Time)?;
    let at = Timestamp::new(part("seconds"), nanos).map_err(|_| Fault::Time)?;
    let text = strtime::format(format, at).map_err(|_| Fault::Time)?;
    Ok(Some(Value::String(text)))
}
