//! One compiled rule: its expression, its message and how a failure is reported.

mod rewrite;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::{ExecutionError, IdedExpr, Value as Cel};
use serde_json::Value;

use super::Failure;
use crate::cel::{FUNCTIONS, cause_of, parse_shared, usable_message};
use crate::error::FieldErrorKind;
use crate::jsonpath::JsonPath;
use crate::schema::Node;

#[derive(Debug)]
pub(super) struct Program {
    rule: String,
    expression: IdedExpr,
    message: Option<String>,
    message_expression: Option<IdedExpr>,
    pub reason: FieldErrorKind,
    /// What follows the path of the rule's level: `.name`, `[key]` or nothing.
    pub field_path: String,
    pub uses_old: bool,
    pub optional_old: bool,
}

impl Program {
    /// From an entry of `x-kubernetes-validations` at `node`.
    pub(super) fn compile(source: &Value, node: &Node, root: bool) -> Result<Self, String> {
        let text = |key: &str| source[key].as_str().map(str::trim).filter(|t| !t.is_empty());
        let rule = text("rule").ok_or("rule is not specified")?;
        let expression = parse(rule, node, root)?;
        let message_expression = match text("messageExpression") {
            Some(text) => Some(parse(text, node, root).map_err(|e| format!("messageExpression: {e}"))?),
            None => None,
        };
        let message = text("message").map(str::to_owned);
        if message.as_ref().is_some_and(|m| m.contains(['\n', '\r'])) {
            return Err("message must not contain line breaks".to_owned());
        }
        let uses_old = expression.references().has_variable("oldSelf");
        let optional_old = source["optionalOldSelf"].as_bool().unwrap_or_default();
        Ok(Self {
            rule: rule.to_owned(),
            expression,
            message,
            message_expression,
            reason: reason(source["reason"].as_str())?,
            field_path: match text("fieldPath") {
                Some(path) => field_path(path, node)?,
                None => String::new(),
            },
            uses_old,
            optional_old,
        })
    }

    /// Evaluates the rule over one value and, for transition rules, its old state.
    pub(super) fn run(&self, this: Cel, old: Option<Cel>) -> Result<(), Failure> {
        // The evaluator panics on a few odd expressions; that may fail the request, not the server.
        let run = AssertUnwindSafe(|| self.run_unguarded(this, old));
        catch_unwind(run)
            .unwrap_or_else(|_| Err(Failure::Error(format!("cannot evaluate rule: {}", self.name()))))
    }

    fn run_unguarded(&self, this: Cel, old: Option<Cel>) -> Result<(), Failure> {
        let mut context = FUNCTIONS.new_inner_scope();
        context.add_variable_from_value("self", this);
        if let Some(old) = old {
            context.add_variable_from_value("oldSelf", old);
        }
        match Cel::resolve(&self.expression, &context).map_err(cause_of) {
            Ok(Cel::Bool(true)) => Ok(()),
            Ok(Cel::Bool(false)) => {
                let computed = self.message_expression.as_ref().and_then(|expression| {
                    match Cel::resolve(expression, &context) {
                        Ok(Cel::String(text)) => usable_message(&text),
                        _ => None,
                    }
                });
                let message = computed.or_else(|| self.message.clone());
                Err(Failure::False(message.unwrap_or_else(|| format!("failed rule: {}", self.rule))))
            }
            Ok(other) => {
                let found = other.type_of();
                Err(Failure::Error(format!(
                    "cel expression must evaluate to a bool, not {found}: {}",
                    self.name()
                )))
            }
            Err(ExecutionError::NoSuchOverload) => Err(Failure::Error(format!(
                "'no such overload': call arguments did not match a supported operator, function or macro \
                 signature for rule: {}",
                self.name()
            ))),
            Err(error) => {
                Err(Failure::Error(format!("{} evaluating rule: {}", lower_first(&error), self.name())))
            }
        }
    }

    /// How an error names the rule.
    fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.rule)
    }
}

fn lower_first(error: &ExecutionError) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => format!("{}{}", first.to_ascii_lowercase(), chars.as_str()),
        None => text,
    }
}

fn parse(source: &str, node: &Node, root: bool) -> Result<IdedExpr, String> {
    let mut expression = IdedExpr::clone(&*parse_shared(source).map_err(|error| error.to_string())?);
    rewrite::prepare(&mut expression, node, root)?;
    Ok(expression)
}

fn reason(name: Option<&str>) -> Result<FieldErrorKind, String> {
    Ok(match name {
        None | Some("" | "FieldValueInvalid") => FieldErrorKind::Invalid,
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        Some(other) => {
            return Err(format!(
                "reason {other:?} is not one of FieldValueInvalid, FieldValueForbidden, FieldValueRequired, \
                 FieldValueDuplicate"
            ));
        }
    })
}

/// A `fieldPath` must lead to a field that the schema declares.
fn field_path(path: &str, node: &Node) -> Result<String, String> {
    let fields = JsonPath::parse(path)
        .ok()
        .and_then(|p| p.fields().map(|f| f.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()))
        .ok_or_else(|| format!("fieldPath {path:?} must name fields only, such as .spec.name or ['a.b']"))?;
    let mut text = String::new();
    let mut node = node;
    for name in &fields {
        let declared = node.properties.get(name);
        let _ = match declared {
            Some(_) => write!(text, ".{name}"),
            None => write!(text, "[{name}]"),
        };
        node = declared
            .or(node.additional.as_ref())
            .ok_or_else(|| format!("fieldPath {path:?} does not refer to a valid field"))?;
    }
    Ok(text)
}
