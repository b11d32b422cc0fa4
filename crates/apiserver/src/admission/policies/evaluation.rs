//! Runs a policy's expressions over one request and one param.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use kube_cel::cel::common::ast::operators::INDEX;
use kube_cel::cel::common::ast::{Expr, LiteralValue};
use kube_cel::cel::context::VariableResolver;
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value as Cel};
use serde_json::Value;

use super::attempt::Attempt;
use super::policy::{Compiled, Program};
use crate::access::Access;
use crate::cel::{
    Authorizer, EXCEEDED, Expression, FUNCTIONS, REQUEST_RESOURCE, ResourceCheck, VARIABLE, cause_of,
    limited, plain, usable_message,
};

/// What one expression may cost, a policy's validations together, and its match conditions.
const PER_CALL: u64 = 1_000_000;
const BUDGET: u64 = 10_000_000;
const MATCH_BUDGET: u64 = BUDGET / 4;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What expressions see of a request.
pub(super) struct Inputs<'a> {
    pub access: &'a Arc<Access>,
    pub attempt: &'a Attempt<'a>,
    pub request: Value,
    pub object: Option<Cow<'a, Value>>,
    pub old: Option<Cow<'a, Value>>,
    pub namespace: Option<Value>,
}

/// What a run found.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub failures: Vec<Failure>,
    /// What went wrong with audit annotations; that denies whatever the binding's actions are.
    pub annotation_errors: Vec<String>,
}

/// A validation that does not hold, or could not be evaluated.
#[derive(Debug)]
pub(super) struct Failure {
    pub message: String,
    pub reason: Option<String>,
}

impl Inputs<'_> {
    pub(super) fn run(&self, program: &Program, param: Option<&Value>) -> Outcome {
        let failed = |message: String| {
            let failures =
                if program.ignores_failures { Vec::new() } else { vec![Failure { message, reason: None }] };
            Outcome { failures, ..Outcome::default() }
        };
        if !program.match_conditions.is_empty() {
            let scope = self.scope(param, None);
            match matches(program, &scope) {
                Ok(true) => {}
                Ok(false) => return Outcome::default(),
                Err(message) => return failed(message),
            }
        }
        let scope = self.scope(param, self.namespace.as_ref());
        let variables = Variables { scope: &scope, of: &program.variables, known: Mutex::default() };
        let mut run = Run { scope: &scope, variables: Some(&variables), left: BUDGET };
        let mut outcome = Outcome::default();
        let mut results = Vec::with_capacity(program.validations.len());
        for validation in &program.validations {
            match run.evaluate(&validation.expression) {
                Ok(result) => results.push(result),
                Err(OutOfBudget) => return failed(OUT_OF_BUDGET.to_owned()),
            }
        }
        for (validation, result) in program.validations.iter().zip(results) {
            let holds = match result {
                Ok(value) => value == Cel::Bool(true),
                Err(message) => {
                    outcome.failures.extend(failed(message).failures);
                    continue;
                }
            };
            if holds {
                continue;
            }
            let computed = match validation.message_expression.as_ref().map(|message| run.evaluate(message)) {
                Some(Ok(Ok(Cel::String(text)))) => usable_message(&text),
                Some(Err(OutOfBudget)) => {
                    let message = format!("failed messageExpression: {OUT_OF_BUDGET}");
                    outcome.failures.extend(failed(message).failures);
                    continue;
                }
                _ => None,
            };
            let message = computed
                .or_else(|| validation.message.as_ref().map(|message| message.trim().to_owned()))
                .unwrap_or_else(|| format!("failed expression: {}", validation.source.trim()));
            outcome.failures.push(Failure { message, reason: validation.reason.clone() });
        }
        run.left = BUDGET;
        for annotation in &program.audit_annotations {
            match run.evaluate(annotation) {
                Ok(Ok(_)) => {}
                Ok(Err(_)) if program.ignores_failures => {}
                Ok(Err(message)) => outcome.annotation_errors.push(message),
                Err(OutOfBudget) => return failed(OUT_OF_BUDGET.to_owned()),
            }
        }
        outcome
    }

    fn scope(&self, param: Option<&Value>, namespace: Option<&Value>) -> Context<'_> {
        let mut scope = FUNCTIONS.new_inner_scope();
        let or_null = |value: Option<&Value>| value.map_or(Cel::Null, plain);
        scope.add_variable_from_value("object", or_null(self.object.as_deref()));
        scope.add_variable_from_value("oldObject", or_null(self.old.as_deref()));
        scope.add_variable_from_value("request", plain(&self.request));
        scope.add_variable_from_value("params", or_null(param));
        scope.add_variable_from_value("namespaceObject", or_null(namespace));
        let authorizer =
            Authorizer { access: self.access.clone(), user: Arc::new(self.attempt.user.clone()) };
        let own = ResourceCheck {
            authorizer: authorizer.clone(),
            group: self.attempt.resource.group.clone(),
            resource: self.attempt.resource.plural.clone(),
            subresource: self.attempt.subresource.to_owned(),
            namespace: self.attempt.namespace.to_owned(),
            name: self.attempt.name.to_owned(),
        };
        scope.add_variable_from_value("authorizer", authorizer);
        scope.add_variable_from_value(REQUEST_RESOURCE, own);
        scope
    }
}

/// Whether the match conditions hold; one that is false outweighs those that fail.
fn matches(program: &Program, scope: &Context<'_>) -> Result<bool, String> {
    let mut run = Run { scope, variables: None, left: MATCH_BUDGET };
    let mut errors = Vec::new();
    let mut holds = true;
    for condition in &program.match_conditions {
        match run.evaluate(condition) {
            Ok(Ok(value)) => holds &= value != Cel::Bool(false),
            Ok(Err(message)) => errors.push(message),
            Err(OutOfBudget) if program.ignores_failures => return Ok(false),
            Err(OutOfBudget) => return Err(OUT_OF_BUDGET.to_owned()),
        }
    }
    match errors.as_slice() {
        _ if !holds => Ok(false),
        [] => Ok(true),
        _ if program.ignores_failures => Ok(false),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

struct OutOfBudget;

/// Expressions that share a budget.
struct Run<'a> {
    scope: &'a Context<'a>,
    variables: Option<&'a Variables<'a>>,
    left: u64,
}

impl Run<'_> {
    fn evaluate(&mut self, expression: &Compiled) -> Result<Result<Cel, String>, OutOfBudget> {
        let expression = match expression {
            Ok(expression) => expression,
            Err(error) => return Ok(Err(format!("compilation error: {error}"))),
        };
        let mut scope = self.scope.new_inner_scope();
        if let Some(variables) = self.variables {
            scope.set_variable_resolver(variables);
        }
        let limit = self.left.min(PER_CALL);
        let (result, spent) = limited(limit, || guarded(expression, &scope));
        if spent > self.left {
            return Err(OutOfBudget);
        }
        self.left -= spent.min(PER_CALL);
        let result = result.map_err(|error| self.describe(&error));
        let result = if spent > limit { Err(EXCEEDED.to_owned()) } else { result };
        Ok(result.map_err(|error| format!("expression '{}' resulted in error: {error}", expression.source)))
    }

    fn describe(&self, error: &ExecutionError) -> String {
        match (error, self.variables) {
            (ExecutionError::UndeclaredReference(name), Some(variables)) => {
                variables.failure(name).unwrap_or_else(|| describe(error))
            }
            _ => describe(error),
        }
    }
}

/// The evaluator panics on a few odd expressions; that may fail the request, not the server.
fn guarded(expression: &Expression, scope: &Context<'_>) -> Result<Cel, ExecutionError> {
    let evaluated = catch_unwind(AssertUnwindSafe(|| Cel::resolve(&expression.tree, scope)));
    let failed = |_| Err(ExecutionError::function_error("evaluate", "the expression cannot be evaluated"));
    evaluated.unwrap_or_else(failed).map_err(|error| match cause_of(error) {
        ExecutionError::NoSuchOverload => {
            let field = missing_field(&expression.tree, scope);
            field.map_or(ExecutionError::NoSuchOverload, |field| ExecutionError::NoSuchKey(Arc::new(field)))
        }
        error => error,
    })
}

/// The first field that is looked for in something without fields, outside of loops.
fn missing_field(tree: &IdedExpr, scope: &Context<'_>) -> Option<String> {
    let Expr::Call(call) = &tree.expr else { return None };
    let below = call.target.as_deref().into_iter().chain(&call.args);
    if let Some(found) = below.into_iter().find_map(|part| missing_field(part, scope)) {
        return Some(found);
    }
    match call.args.as_slice() {
        [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }]
            if call.func_name == INDEX =>
        {
            let value = Cel::resolve(operand, scope).ok()?;
            let has_fields = matches!(value, Cel::Map(_) | Cel::List(_) | Cel::Opaque(_));
            (!has_fields).then(|| field.inner().to_owned())
        }
        _ => None,
    }
}

/// What went wrong, in the words of Kubernetes' evaluator.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::FunctionError { function, message } => match function.as_str() {
            "int" | "uint" | "double" if message.contains("parse error") => {
                format!("type conversion error from 'string' to '{function}'")
            }
            _ => message.clone(),
        },
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(index) => match index {
            Cel::Int(index) => format!("index out of bounds: {index}"),
            other => format!("index out of bounds: {other:?}"),
        },
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        _ => "no such overload".to_owned(),
    }
}

/// The variables of a policy: evaluated when they are first named, once.
struct Variables<'a> {
    scope: &'a Context<'a>,
    of: &'a [(String, Compiled)],
    known: Mutex<HashMap<String, Result<Cel, String>>>,
}

impl Variables<'_> {
    /// Why a variable has no value.
    fn failure(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix(VARIABLE)?;
        lock(&self.known).get(name)?.as_ref().err().cloned()
    }

    fn evaluate(&self, name: &str) -> Result<Cel, String> {
        let (_, compiled) =
            self.of.iter().rev().find(|(known, _)| known == name).ok_or("no such variable")?;
        let expression = compiled
            .as_ref()
            .map_err(|error| format!("composited variable {name:?} fails to compile: {error}"))?;
        let mut scope = self.scope.new_inner_scope();
        scope.set_variable_resolver(self);
        guarded(expression, &scope).map_err(|error| {
            let error = match &error {
                ExecutionError::UndeclaredReference(inner) => self.failure(inner),
                _ => None,
            }
            .unwrap_or_else(|| describe(&error));
            format!("composited variable {name:?} fails to evaluate: {error}")
        })
    }
}

impl VariableResolver for Variables<'_> {
    fn resolve(&self, name: &str) -> Option<Cel> {
        let name = name.strip_prefix(VARIABLE)?;
        let known = lock(&self.known).get(name).cloned();
        let value = known.unwrap_or_else(|| {
            let value = self.evaluate(name);
            lock(&self.known).insert(name.to_owned(), value.clone());
            value
        });
        value.ok()
    }
}
