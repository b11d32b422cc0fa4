//! JSON to CEL values by their schema, for the rules.

use std::sync::{Arc, LazyLock};

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{IdedExpr, Value as Cel};
use serde_json::Value;

use super::{Node, Type};
use crate::cel::FUNCTIONS;

/// The value as a rule sees it: declared fields have escaped names, and formats give times, durations and bytes.
pub(super) fn to_cel(node: Option<&Node>, value: &Value) -> Cel {
    let ty = node.and_then(|n| n.ty);
    match value {
        Value::Null => Cel::Null,
        Value::Bool(b) => Cel::Bool(*b),
        Value::Number(n) => match (ty, n.as_i64()) {
            (Some(Type::Number), _) | (None, None) => Cel::Float(n.as_f64().unwrap_or(f64::NAN)),
            (_, Some(i)) => Cel::Int(i),
            (_, None) => Cel::Int(n.as_f64().unwrap_or_default() as i64),
        },
        Value::String(text) => string(node, text),
        Value::Array(items) => {
            let schema = node.and_then(|n| n.items.as_deref());
            Cel::List(Arc::new(items.iter().map(|item| to_cel(schema, item)).collect()))
        }
        Value::Object(map) => {
            // The keys of a map are data; the names of fields must be spelled as CEL identifiers.
            let is_map = node.is_some_and(|n| n.additional.is_some());
            let fields = map.iter().map(|(key, child)| {
                let name = if is_map { key.clone() } else { escape(key) };
                (Key::String(Arc::new(name)), to_cel(node.and_then(|n| n.field(key)), child))
            });
            Cel::Map(Map { map: Arc::new(fields.collect()) })
        }
    }
}

fn string(node: Option<&Node>, text: &str) -> Cel {
    static TIMESTAMP: LazyLock<IdedExpr> = LazyLock::new(|| parse_constant("timestamp(text)"));
    static DURATION: LazyLock<IdedExpr> = LazyLock::new(|| parse_constant("duration(text)"));
    let plain = || Cel::String(Arc::new(text.to_owned()));
    let convert = |expr: &IdedExpr, text: String| {
        let mut context = FUNCTIONS.new_inner_scope();
        context.add_variable_from_value("text", text);
        Cel::resolve(expr, &context).ok()
    };
    let format = node.filter(|n| n.ty == Some(Type::String)).and_then(|n| n.format.as_deref());
    let converted = match format {
        Some("date-time") => convert(&TIMESTAMP, text.to_owned()),
        Some("date") => convert(&TIMESTAMP, format!("{text}T00:00:00Z")),
        Some("duration") => convert(&DURATION, text.to_owned()),
        Some("byte") => {
            use base64::Engine;
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok();
            bytes.map(|bytes| Cel::Bytes(Arc::new(bytes)))
        }
        _ => None,
    };
    converted.unwrap_or_else(plain)
}

fn parse_constant(source: &str) -> IdedExpr {
    Parser::new().parse(source).expect("a constant expression parses")
}

/// A field name as a CEL identifier.
pub(super) fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

/// Whether a name means something else in CEL.
pub(crate) fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "true"
            | "false"
            | "null"
            | "in"
            | "as"
            | "break"
            | "const"
            | "continue"
            | "else"
            | "for"
            | "function"
            | "if"
            | "import"
            | "let"
            | "loop"
            | "package"
            | "namespace"
            | "return"
            | "var"
            | "void"
            | "while"
    )
}
