//! The macros that the `cel` crate lacks, as expressions that it knows.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue};

use super::functions::{OPTIONAL_FIELD, OPTIONAL_FROM_LIST, OPTIONAL_TO_LIST};

/// The expression that a macro stands for.
pub(crate) fn expand(call: &mut CallExpr) -> Option<Expr> {
    let target = call.target.as_deref();
    match (call.func_name.as_str(), target.map(|t| &t.expr), call.args.as_slice()) {
        ("_?._", None, [_, _]) => {
            let args = std::mem::take(&mut call.args);
            Some(function(OPTIONAL_FIELD, args))
        }
        ("bind", Some(Expr::Ident(cel)), [name, value, body]) if cel == "cel" => {
            Some(bind(ident(name)?, value.clone(), body.clone()))
        }
        ("optMap" | "optFlatMap", Some(_), [name, body]) => {
            let name = ident(name)?;
            let body = body.clone();
            let values = wrap(function(OPTIONAL_TO_LIST, vec![*call.target.take()?]));
            Some(function(OPTIONAL_FROM_LIST, vec![wrap(map(values, name, body))]))
        }
        _ => None,
    }
}

pub(super) fn ident(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

/// `body` with `name` bound to `value`: a loop over nothing whose accumulator is the variable.
fn bind(name: String, value: IdedExpr, body: IdedExpr) -> Expr {
    let unused = wrap(Expr::Literal(LiteralValue::Null));
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: wrap(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_var: name,
        accu_init: value,
        loop_cond: unused.clone(),
        loop_step: unused,
        result: body,
    }))
}

/// `list.map(name, body)`.
fn map(list: IdedExpr, name: String, body: IdedExpr) -> Expr {
    let result = wrap(Expr::Ident("@result".to_owned()));
    let one = wrap(Expr::List(ListExpr::new(vec![body])));
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: list,
        iter_var: name,
        iter_var2: None,
        accu_var: "@result".to_owned(),
        accu_init: wrap(Expr::List(ListExpr::new(Vec::new()))),
        loop_cond: wrap(Expr::Literal(LiteralValue::Boolean(true.into()))),
        loop_step: wrap(function("_+_", vec![result.clone(), one])),
        result,
    }))
}

pub(super) fn wrap(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

pub(super) fn function(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args })
}
