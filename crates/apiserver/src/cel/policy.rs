//! Expressions of admission policies: compiled against the variables that they have, and made to pay for what they do.

use std::sync::Arc;

use kube_cel::cel::common::ast::operators::{ADD, CONDITIONAL, EQUALS, IN, NOT_EQUALS};
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{IdedExpr, Value as Cel};
use serde_json::Value;

use super::check::{Check, UNUSED, is_conditional};
use super::functions::{COLLECT, SIZED, SPEND};
use super::macros::{function, wrap};
use super::parse::{parse_shared, place};
use super::types::Type;

/// Before the name of one of the policy's variables, as the evaluator resolves it.
pub(crate) const VARIABLE: &str = "@variables.";
/// `authorizer.requestResource`, as the evaluator resolves it.
pub(crate) const REQUEST_RESOURCE: &str = "@requestResource";

/// Which variables an expression may name, beside those that all have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub params: bool,
    pub authorizer: bool,
    /// The variables of the policy that stand before it, with their types; `None` where there can't be any.
    pub variables: Option<Vec<(String, Type)>>,
}

/// An expression that can be evaluated.
#[derive(Debug)]
pub(crate) struct Expression {
    /// As written.
    pub source: String,
    pub tree: IdedExpr,
    pub ty: Type,
}

impl Expression {
    /// Compiles; `wanted` are the types that it may give, none for any.
    ///
    /// # Errors
    /// In the words of Kubernetes' compiler.
    pub(crate) fn compile(source: &str, environment: &Environment, wanted: &[Type]) -> Result<Self, String> {
        let failed = |flaws: &dyn std::fmt::Display| format!("compilation failed: {flaws}");
        let mut tree = IdedExpr::clone(&*parse_shared(source).map_err(|flaws| failed(&flaws))?);
        let mut check = Check::new(environment);
        let ty = check.visit(&mut tree);
        if !check.flaws.is_empty() {
            return Err(failed(&place(source, check.flaws)));
        }
        if !wanted.is_empty() && !wanted.contains(&ty) {
            return Err(match wanted {
                [one] => format!("must evaluate to {one} but got {ty}"),
                many => {
                    let many: Vec<String> = many.iter().map(in_list).collect();
                    format!("must evaluate to one of [{}] but got {ty}", many.join(" "))
                }
            });
        }
        pay(&mut tree);
        Ok(Self { source: source.to_owned(), tree, ty })
    }
}

fn in_list(ty: &Type) -> String {
    if *ty == Type::Null { "null_type".to_owned() } else { ty.to_string() }
}

/// JSON as an expression sees it that knows no schema.
pub(crate) fn plain(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(b) => Cel::Bool(*b),
        Value::Number(n) => n.as_i64().map_or_else(|| Cel::Float(n.as_f64().unwrap_or(f64::NAN)), Cel::Int),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (Key::String(Arc::new(key.clone())), plain(value)));
            Cel::Map(Map { map: Arc::new(entries.collect()) })
        }
    }
}

/// Makes loops pay for their steps, and functions, sums and comparisons for the size of what they go through.
fn pay(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Comprehension(comprehension) => {
            each_part(comprehension, pay);
            if let Some(collected) = as_collect(comprehension) {
                expression.expr = collected;
            } else if comprehension.iter_var != UNUSED {
                let steps = 1 + nodes(&comprehension.loop_step);
                let paid = function(SPEND, vec![wrap(Expr::Literal(LiteralValue::Int(steps.into())))]);
                let go_on = std::mem::take(&mut comprehension.loop_cond);
                let stop = wrap(Expr::Literal(LiteralValue::Boolean(false.into())));
                comprehension.loop_cond = wrap(function(CONDITIONAL, vec![wrap(paid), go_on, stop]));
            }
        }
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| pay(target));
            call.args.iter_mut().for_each(pay);
            match call.func_name.as_str() {
                ADD => {
                    let sum = std::mem::take(&mut expression.expr);
                    expression.expr = function(SIZED, vec![wrap(sum)]);
                }
                IN => call.args.iter_mut().skip(1).for_each(sized),
                // Of two values only as much is compared as the smaller one has.
                EQUALS | NOT_EQUALS if !call.args.iter().any(|arg| matches!(arg.expr, Expr::Literal(_))) => {
                    call.args.iter_mut().take(1).for_each(sized);
                }
                name if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    // What stands before the name of a function may be a part of it.
                    if let Some(target) = call.target.as_mut().filter(|t| !matches!(t.expr, Expr::Ident(_))) {
                        sized(target);
                    } else if let Some(target) = &mut call.target
                        && matches!(&target.expr, Expr::Ident(name) if !super::is_function(&format!("{name}.{}", call.func_name)))
                    {
                        sized(target);
                    }
                    call.args.iter_mut().for_each(sized);
                }
                _ => {}
            }
        }
        Expr::Select(select) => pay(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(pay),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    pay(&mut entry.key);
                    pay(&mut entry.value);
                }
            }
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

fn each_part(comprehension: &mut ComprehensionExpr, mut f: impl FnMut(&mut IdedExpr)) {
    f(&mut comprehension.iter_range);
    // A list that is built up would pay for all of it at each step; `@collect` stands for those.
    if as_collect(&mut comprehension.clone()).is_some() {
        collect_parts(&mut comprehension.loop_step).into_iter().for_each(f);
        return;
    }
    f(&mut comprehension.accu_init);
    f(&mut comprehension.loop_cond);
    f(&mut comprehension.loop_step);
    f(&mut comprehension.result);
}

/// Makes an argument pay for its size, and say why it can't be had.
pub(crate) fn sized(argument: &mut IdedExpr) {
    if !matches!(argument.expr, Expr::Literal(_)) {
        let inner = std::mem::take(argument);
        *argument = wrap(function(SIZED, vec![inner]));
    }
}

/// The condition and the item of `result + [item]`, or of `condition ? result + [item] : result`.
fn collect_parts(step: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    let Expr::Call(call) = &mut step.expr else { return Vec::new() };
    if is_conditional(call) {
        let [condition, sum, _] = call.args.as_mut_slice() else { return Vec::new() };
        let mut parts = vec![condition];
        parts.extend(collect_parts(sum));
        return parts;
    }
    match call.args.as_mut_slice() {
        [_, IdedExpr { expr: Expr::List(ListExpr { elements, .. }), .. }] => elements.iter_mut().collect(),
        _ => Vec::new(),
    }
}

/// A loop that builds a list, as `map` and `filter` are, as a call of `@collect`.
fn as_collect(comprehension: &mut ComprehensionExpr) -> Option<Expr> {
    let result = &comprehension.accu_var;
    let is_result = |e: &IdedExpr| matches!(&e.expr, Expr::Ident(name) if name == result);
    let is_empty = matches!(&comprehension.accu_init.expr, Expr::List(list) if list.elements.is_empty());
    if !is_empty || !is_result(&comprehension.result) || comprehension.iter_var == UNUSED {
        return None;
    }
    let item_of = |sum: &IdedExpr| -> Option<IdedExpr> {
        let Expr::Call(CallExpr { func_name, args, .. }) = &sum.expr else { return None };
        match args.as_slice() {
            [first, IdedExpr { expr: Expr::List(list), .. }]
                if func_name == ADD && is_result(first) && list.optional_indices.is_empty() =>
            {
                <[IdedExpr; 1]>::try_from(list.elements.clone()).ok().map(|[item]| item)
            }
            _ => None,
        }
    };
    let (condition, item) = match &comprehension.loop_step.expr {
        Expr::Call(call) if is_conditional(call) && is_result(&call.args[2]) => {
            (call.args[0].clone(), item_of(&call.args[1])?)
        }
        _ => {
            let always = wrap(Expr::Literal(LiteralValue::Boolean(true.into())));
            (always, item_of(&comprehension.loop_step)?)
        }
    };
    let variable = wrap(Expr::Ident(comprehension.iter_var.clone()));
    let range = std::mem::take(&mut comprehension.iter_range);
    Some(function(COLLECT, vec![range, variable, condition, item]))
}

/// How many expressions there are in one: what a step of a loop costs.
fn nodes(expression: &IdedExpr) -> i64 {
    1 + match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).map(nodes).sum(),
        Expr::List(list) => list.elements.iter().map(nodes).sum(),
        Expr::Select(select) => nodes(&select.operand),
        _ => 0,
    }
}
