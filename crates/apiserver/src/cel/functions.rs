//! The functions that an expression may call: those of the `cel` and `kube-cel` crates, and what they lack or get wrong.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use causeway_base::lock::lock;
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, IdedExpr, ResolveResult, Value as Cel};
use regex::Regex;

use super::{authorizer, cost};
use crate::schema::build_regex;

/// `a.?b`, which the crate gets wrong for an absent field; rules are rewritten to call this instead.
pub(crate) const OPTIONAL_FIELD: &str = "@optional_field";

/// An optional as a list of none or one, and back; `optMap` and `optFlatMap` are a map over such a list.
pub(crate) const OPTIONAL_TO_LIST: &str = "@optional_to_list";
pub(crate) const OPTIONAL_FROM_LIST: &str = "@optional_from_list";

/// `map` and `filter`, which the crate does by copying the whole result for each item: `@collect(list, variable,
/// condition, transform)`.
pub(super) const COLLECT: &str = "@collect";

/// Steps of a loop, and values by their size, as they are paid for.
pub(super) const SPEND: &str = "@spend";
pub(super) const SIZED: &str = "@sized";

/// A function that is given its arguments as they are written.
type Native = Box<dyn Fn(&mut FunctionContext<'_, '_>) -> ResolveResult + Send + Sync>;

/// All functions a rule may call. Shared by every evaluation, which adds its variables in an inner scope.
pub(crate) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function("matches", matches);
    context.add_function(OPTIONAL_FIELD, optional_field);
    context.add_function(OPTIONAL_TO_LIST, optional_to_list);
    context.add_function(OPTIONAL_FROM_LIST, optional_from_list);
    context.add_function("dyn", |value: Cel| -> Result<Cel, ExecutionError> { Ok(value) });
    context.add_function("bool", to_bool);
    let collect: Native = Box::new(collect);
    context.add_function(COLLECT, collect);
    context.add_function(SPEND, spend);
    let sized: Native = Box::new(sized);
    context.add_function(SIZED, sized);
    authorizer::register(&mut context);
    context
});

/// Whether a rule may call `name`, as a function or as a method.
pub(crate) fn is_function(name: &str) -> bool {
    let call = CallExpr { func_name: name.to_owned(), target: None, args: Vec::new() };
    let probe = IdedExpr { id: 0, expr: Expr::Call(call) };
    !matches!(Cel::resolve(&probe, &FUNCTIONS), Err(ExecutionError::UndeclaredReference(_)))
}

/// An optional with or without a value.
pub(crate) fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
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
            build_regex(&pattern).map_err(|error| ExecutionError::function_error("matches", error))?;
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

fn collect(call: &mut FunctionContext<'_, '_>) -> ResolveResult {
    let [list, variable, condition, transform] = call.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let Expr::Ident(variable) = &variable.expr else { return Err(ExecutionError::NoSuchOverload) };
    let items: Vec<Cel> = match Cel::resolve(list, call.ptx)? {
        Cel::List(items) => Arc::unwrap_or_clone(items),
        Cel::Map(map) => map.map.keys().map(Cel::from).collect(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let mut collected = Vec::new();
    for item in items {
        cost::spend(1)?;
        let mut scope = call.ptx.new_inner_scope();
        scope.add_variable_from_value(variable, item);
        match Cel::resolve(condition, &scope)? {
            Cel::Bool(true) => collected.push(Cel::resolve(transform, &scope)?),
            Cel::Bool(false) => {}
            _ => return Err(ExecutionError::NoSuchOverload),
        }
    }
    Ok(Cel::List(Arc::new(collected)))
}

fn spend(steps: i64) -> Result<bool, ExecutionError> {
    cost::spend(steps.unsigned_abs()).map(|()| true)
}

fn sized(call: &mut FunctionContext<'_, '_>) -> ResolveResult {
    let [argument] = call.args else { return Err(ExecutionError::NoSuchOverload) };
    let value = Cel::resolve(argument, call.ptx).inspect_err(|error| FAILED.set(Some(error.clone())))?;
    cost::spend(cost::size(&value))?;
    Ok(value)
}

thread_local! {
    /// What went wrong with an argument: functions of the crate say only that they have none.
    static FAILED: Cell<Option<ExecutionError>> = const { Cell::new(None) };
}

/// Why an evaluation on this thread failed, if its error does not say.
pub(crate) fn cause_of(error: ExecutionError) -> ExecutionError {
    match (error, FAILED.take()) {
        (ExecutionError::MissingArgumentOrTarget, Some(cause)) => cause,
        (error, _) => error,
    }
}

fn to_bool(value: Cel) -> Result<bool, ExecutionError> {
    match &value {
        Cel::Bool(value) => Ok(*value),
        Cel::String(text) => match text.as_str() {
            "1" | "t" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err(ExecutionError::function_error("bool", "type conversion error from 'string' to 'bool'")),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
