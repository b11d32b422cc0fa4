//! The evaluator behind the rules: JSON to CEL values by their schema, and the functions that the `cel` crate lacks.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use causeway_base::lock::lock;
use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value as Cel};
use regex::Regex;
use serde_json::Value;

use super::{Node, Type};

/// `a.?b`, which the crate gets wrong for an absent field; rules are rewritten to call this instead.
pub(super) const OPTIONAL_FIELD: &str = "@optional_field";

/// An optional as a list of none or one, and back; `optMap` and `optFlatMap` are a map over such a list.
pub(super) const OPTIONAL_TO_LIST: &str = "@optional_to_list";
pub(super) const OPTIONAL_FROM_LIST: &str = "@optional_from_list";

/// All functions a rule may call. Shared by every evaluation, which adds its variables in an inner scope.
pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function("matches", matches);
    context.add_function(OPTIONAL_FIELD, optional_field);
    context.add_function(OPTIONAL_TO_LIST, optional_to_list);
    context.add_function(OPTIONAL_FROM_LIST, optional_from_list);
    context
});

/// Whether a rule may call `name`, as a function or as a method.
pub(super) fn is_function(name: &str) -> bool {
    use kube_cel::cel::common::ast::{CallExpr, Expr};
    let call = CallExpr { func_name: name.to_owned(), target: None, args: Vec::new() };
    let probe = IdedExpr { id: 0, expr: Expr::Call(call) };
    !matches!(Cel::resolve(&probe, &FUNCTIONS), Err(ExecutionError::UndeclaredReference(_)))
}

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

/// An optional with or without a value, for `optionalOldSelf`.
pub(super) fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
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
pub(super) fn is_reserved(name: &str) -> bool {
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

/// How many patterns of rules stay compiled.
const PATTERN_CACHE: usize = 512;

/// The crate compiles the pattern at every call, which costs more than the rest of a rule.
fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<bool, ExecutionError> {
    static CACHE: LazyLock<Mutex<HashMap<Arc<String>, Regex>>> = LazyLock::new(Mutex::default);
    let cached = lock(&CACHE).get(&pattern).cloned();
    let regex = if let Some(regex) = cached {
        regex
    } else {
        let regex =
            super::build_regex(&pattern).map_err(|error| ExecutionError::function_error("matches", error))?;
        let mut cache = lock(&CACHE);
        if cache.len() >= PATTERN_CACHE {
            cache.clear();
        }
        cache.insert(pattern, regex.clone());
        regex
    };
    Ok(regex.is_match(&text))
}

fn optional_field(operand: Cel, field: Arc<String>) -> Result<Cel, ExecutionError> {
    let inner = match &operand {
        Cel::Opaque(_) => match <&OptionalValue>::try_from(&operand)?.value() {
            Some(value) => value.clone(),
            None => return Ok(optional(None)),
        },
        other => other.clone(),
    };
    match inner {
        Cel::Map(map) => Ok(optional(map.map.get(&Key::String(field)).cloned())),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn optional_to_list(operand: Cel) -> Result<Cel, ExecutionError> {
    let value = <&OptionalValue>::try_from(&operand)?.value().cloned();
    Ok(Cel::List(Arc::new(value.into_iter().collect())))
}

fn optional_from_list(list: Cel) -> Result<Cel, ExecutionError> {
    let Cel::List(list) = &list else {
        return Err(ExecutionError::NoSuchOverload);
    };
    Ok(match list.first() {
        Some(Cel::Opaque(inner)) if inner.runtime_type_name() == "optional_type" => {
            Cel::Opaque(inner.clone())
        }
        first => optional(first.cloned()),
    })
}
