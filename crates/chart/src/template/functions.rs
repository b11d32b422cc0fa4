//! The functions of templates.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Whether a condition holds for a value: it does not for what is empty.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// A value as it is printed.
pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => Err(format!("{value} can't be printed: use toYaml")),
    }
}

pub(super) fn call(name: &str, arguments: Vec<Value>) -> Result<Value, String> {
    let wants = |what: &str| format!("{name} wants {what}");
    match (name, &*arguments) {
        ("quote", [value]) => Ok(json!(json!(text(value)?).to_string())),
        ("default", [usual, value]) => Ok(if is_true(value) { value.clone() } else { usual.clone() }),
        ("toYaml", [value]) => to_yaml(value).map(Value::String),
        ("toJson", [value]) => Ok(json!(sorted(value)?)),
        ("fromYaml", [value]) => crate::document::parse(&text(value)?),
        ("indent", [Value::Number(by), value]) => Ok(json!(indent(by.as_u64(), &text(value)?))),
        ("nindent", [Value::Number(by), value]) => {
            Ok(json!(format!("\n{}", indent(by.as_u64(), &text(value)?))))
        }
        ("int", [value]) => Ok(json!(value.as_i64().unwrap_or_default())),
        ("not", [value]) => Ok(json!(!is_true(value))),
        ("and", [_, ..]) => Ok(decisive(arguments, false)),
        ("or", [_, ..]) => Ok(decisive(arguments, true)),
        ("eq", [value, others @ ..]) if !others.is_empty() => Ok(json!(others.contains(value))),
        ("ne", [one, other]) => Ok(json!(one != other)),
        ("gt", [one, other]) => {
            let (one, other) = one.as_i64().zip(other.as_i64()).ok_or_else(|| wants("numbers"))?;
            Ok(json!(one > other))
        }
        ("has", [value, Value::Array(list)]) => Ok(json!(list.contains(value))),
        ("printf", [Value::String(form), values @ ..]) => print(form, values).map(Value::String),
        ("fail", [Value::String(why)]) => Err(why.clone()),
        (
            "quote" | "default" | "toYaml" | "toJson" | "fromYaml" | "indent" | "nindent" | "int" | "not"
            | "and" | "or" | "eq" | "ne" | "gt" | "has" | "printf" | "fail",
            _,
        ) => Err(wants("other arguments")),
        _ => Err(format!("there is no function {name}")),
    }
}

/// The first value that decides, or else the last one.
fn decisive(values: Vec<Value>, on: bool) -> Value {
    let last = values.last().cloned().unwrap_or_default();
    values.into_iter().find(|value| is_true(value) == on).unwrap_or(last)
}

fn indent(by: Option<u64>, text: &str) -> String {
    let space = " ".repeat(usize::try_from(by.unwrap_or_default()).unwrap_or_default());
    text.lines().map(|line| format!("{space}{line}")).collect::<Vec<_>>().join("\n")
}

fn print(form: &str, values: &[Value]) -> Result<String, String> {
    let mut values = values.iter();
    let mut parts = form.split("%s");
    let mut printed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        printed.push_str(&text(values.next().ok_or("printf: a value is missing")?)?);
        printed.push_str(part);
    }
    Ok(printed)
}

/// With keys in one order, whatever the order of the map is.
fn sorted(value: &Value) -> Result<String, String> {
    serde_json::to_string(&in_order(value)).map_err(|error| error.to_string())
}

fn to_yaml(value: &Value) -> Result<String, String> {
    let yaml = serde_saphyr::to_string(&in_order(value)).map_err(|error| error.to_string())?;
    Ok(yaml.trim_end().to_owned())
}

/// The same, with maps that are sorted.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Ordered<'a> {
    Map(BTreeMap<&'a str, Self>),
    List(Vec<Self>),
    Plain(&'a Value),
}

fn in_order(value: &Value) -> Ordered<'_> {
    match value {
        Value::Object(map) => {
            Ordered::Map(map.iter().map(|(key, value)| (key.as_str(), in_order(value))).collect())
        }
        Value::Array(list) => Ordered::List(list.iter().map(in_order).collect()),
        plain => Ordered::Plain(plain),
    }
}
