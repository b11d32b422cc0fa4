//! Finds the types of a policy's expression, and what is wrong with it, in the words of Kubernetes' compiler. On the way
//! macros are expanded and names become those that the evaluator resolves.

use std::sync::Arc;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::operators::{CONDITIONAL, INDEX, OPT_SELECT};
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, SelectExpr,
};

use super::functions::is_function;
use super::macros::{expand, function, wrap};
use super::overloads;
use super::policy::{Environment, REQUEST_RESOURCE, VARIABLE};
use super::types::{NAMESPACE, REQUEST, Type};

/// One walk over an expression.
pub(super) struct Check<'e> {
    environment: &'e Environment,
    /// The variables of the macros around the place.
    locals: Vec<(String, Type)>,
    /// By the id of the expression at fault.
    pub flaws: Vec<(u64, String)>,
}

impl<'e> Check<'e> {
    pub(super) fn new(environment: &'e Environment) -> Self {
        Self { environment, locals: Vec::new(), flaws: Vec::new() }
    }

    fn flaw(&mut self, id: u64, message: String) -> Type {
        self.flaws.push((id, message));
        Type::Flawed
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type {
        self.flaw(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    pub(super) fn visit(&mut self, expression: &mut IdedExpr) -> Type {
        let id = expression.id;
        match &mut expression.expr {
            Expr::Ident(name) => self.variable(name).unwrap_or_else(|| self.undeclared(id, name)),
            Expr::Select(_) => self.select(expression),
            Expr::Call(call) => {
                if call.func_name == OPT_SELECT {
                    let ty = call.args.first_mut().map_or(Type::Dyn, |operand| self.visit(operand));
                    if let Type::Object(_) | Type::Map(..) | Type::Dyn | Type::Optional(_) | Type::Flawed = ty
                    {
                        if let Some(replacement) = expand(call) {
                            expression.expr = replacement;
                        }
                        return Type::Optional(Arc::new(Type::Dyn));
                    }
                }
                if let Some(replacement) = expand(call) {
                    expression.expr = replacement;
                    return self.visit(expression);
                }
                self.call(id, call)
            }
            Expr::Comprehension(comprehension) => self.comprehension(id, comprehension),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => {
                let (mut key, mut value) = (Type::Any(0), Type::Any(0));
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        key = self.same(&key, &mut entry.key, false);
                        value = self.same(&value, &mut entry.value, entry.optional);
                    }
                }
                Type::Map(Arc::new(key), Arc::new(value))
            }
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::String,
                LiteralValue::UInt(_) => Type::Uint,
            },
            Expr::Struct(message) => self.undeclared(id, &message.type_name),
            Expr::Unspecified => self.flaw(id, "unspecified expression".to_owned()),
        }
    }

    fn variable(&self, name: &str) -> Option<Type> {
        if let Some((_, ty)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Some(ty.clone());
        }
        Some(match name {
            "object" | "oldObject" => Type::Dyn,
            "params" if self.environment.params => Type::Dyn,
            "request" => Type::Object(&REQUEST),
            "namespaceObject" => Type::Object(&NAMESPACE),
            "authorizer" if self.environment.authorizer => {
                Type::Opaque("kubernetes.authorization.Authorizer")
            }
            _ => return None,
        })
    }

    /// Whether a name is one of the policy's, not of a macro around the place.
    fn is_global(&self, expression: &IdedExpr, name: &str) -> bool {
        matches!(&expression.expr, Expr::Ident(found) if found == name)
            && !self.locals.iter().any(|(local, _)| local == name)
    }

    fn select(&mut self, expression: &mut IdedExpr) -> Type {
        let id = expression.id;
        let Expr::Select(SelectExpr { operand, field, test }) = &mut expression.expr else {
            return Type::Dyn;
        };
        if field == "requestResource"
            && self.environment.authorizer
            && self.is_global(operand, "authorizer")
            && !*test
        {
            expression.expr = Expr::Ident(REQUEST_RESOURCE.to_owned());
            return Type::Opaque("kubernetes.authorization.ResourceCheck");
        }
        if let Some(variables) = &self.environment.variables
            && self.is_global(operand, "variables")
        {
            let Some((_, ty)) = variables.iter().rev().find(|(name, _)| name == field) else {
                let message = format!("undefined field '{field}'");
                return self.flaw(id, message);
            };
            if *test {
                expression.expr = Expr::Literal(LiteralValue::Boolean(true.into()));
                return Type::Bool;
            }
            expression.expr = Expr::Ident(format!("{VARIABLE}{field}"));
            return ty.clone();
        }
        let ty = match self.visit(operand) {
            Type::Object(object) => {
                let found = object.fields.iter().find(|(name, _)| name == field);
                let flaw = || self.flaw(id, format!("undefined field '{field}'"));
                found.map_or_else(flaw, |(_, ty)| ty.ty())
            }
            Type::Map(_, value) => (*value).clone(),
            Type::Dyn | Type::Any(_) => Type::Dyn,
            Type::Optional(_) => Type::Optional(Arc::new(Type::Dyn)),
            Type::Flawed => Type::Flawed,
            Type::Opaque(name) => self.flaw(id, format!("unexpected failed resolution of '{name}'")),
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.flaw(id, message)
            }
        };
        if *test {
            return if ty == Type::Flawed { ty } else { Type::Bool };
        }
        // An index goes without copying what it goes through, and fails where there is nothing to go through.
        let key = wrap(Expr::Literal(LiteralValue::String(std::mem::take(field).into())));
        let operand = std::mem::take(&mut **operand);
        expression.expr = function(INDEX, vec![operand, key]);
        ty
    }

    fn call(&mut self, id: u64, call: &mut CallExpr) -> Type {
        let mut name = call.func_name.clone();
        let mut types = Vec::new();
        let mut is_method = false;
        if let Some(target) = &mut call.target {
            // `math.greatest(...)`: the target is a part of the name.
            let qualified = match &target.expr {
                Expr::Ident(prefix) if self.variable(prefix).is_none() => {
                    Some(format!("{prefix}.{name}")).filter(|name| is_function(name))
                }
                _ => None,
            };
            if let Some(qualified) = qualified {
                name = qualified;
            } else {
                is_method = true;
                types.push(self.visit(target));
            }
        }
        types.extend(call.args.iter_mut().map(|arg| self.visit(arg)).collect::<Vec<_>>());
        let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_operator && !is_function(&name) {
            return self.undeclared(id, &name);
        }
        if types.contains(&Type::Flawed) {
            // Told already; what it gives is known all the same where there is one way to call it.
            let gives = overloads::of(&name).and_then(|found| found.first()).map(|found| found.gives.clone());
            return gives.filter(|ty| *ty == Type::Bool).unwrap_or(Type::Flawed);
        }
        let found = match name.as_str() {
            "_<_" | "_<=_" | "_>_" | "_>=_" => are_ordered(&types).then_some(Type::Bool),
            _ => match overloads::of(&name) {
                Some(found) => matching(found, is_method, &types),
                None => Some(Type::Dyn),
            },
        };
        found.unwrap_or_else(|| {
            let shown = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
            let given = match types.split_first() {
                Some((target, rest)) if is_method => format!("{target}.({})", shown(rest)),
                _ => format!("({})", shown(&types)),
            };
            self.flaw(id, format!("found no matching overload for '{name}' applied to '{given}'"))
        })
    }

    fn list(&mut self, list: &mut ListExpr) -> Type {
        let mut item = Type::Any(0);
        for (i, element) in list.elements.iter_mut().enumerate() {
            item = self.same(&item, element, list.optional_indices.contains(&i));
        }
        Type::List(Arc::new(item))
    }

    /// The type of a literal's items with one more; they are all of one type.
    fn same(&mut self, known: &Type, element: &mut IdedExpr, is_optional: bool) -> Type {
        let ty = match self.visit(element) {
            Type::Optional(inner) if is_optional => (*inner).clone(),
            ty => ty,
        };
        known
            .join(&ty)
            .unwrap_or_else(|| self.flaw(element.id, format!("expected type '{known}' but found '{ty}'")))
    }

    fn comprehension(&mut self, id: u64, comprehension: &mut ComprehensionExpr) -> Type {
        let item = match self.visit(&mut comprehension.iter_range) {
            Type::List(item) => (*item).clone(),
            Type::Map(key, _) => (*key).clone(),
            Type::Dyn | Type::Any(_) => Type::Dyn,
            Type::Flawed => Type::Flawed,
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                let range = comprehension.iter_range.id;
                self.flaw(if range == 0 { id } else { range }, message)
            }
        };
        let mut accumulated = self.visit(&mut comprehension.accu_init);
        let outer = self.locals.len();
        self.locals.push((comprehension.accu_var.clone(), accumulated.clone()));
        if comprehension.iter_var != UNUSED {
            self.locals.push((comprehension.iter_var.clone(), item));
            self.visit(&mut comprehension.loop_cond);
            let step = self.visit(&mut comprehension.loop_step);
            accumulated = accumulated.join(&step).unwrap_or(accumulated);
        }
        self.locals.truncate(outer);
        self.locals.push((comprehension.accu_var.clone(), accumulated));
        let result = self.visit(&mut comprehension.result);
        self.locals.truncate(outer);
        result
    }
}

/// The variable of a loop that is never gone through: `cel.bind`.
pub(super) const UNUSED: &str = "@unused";

fn are_ordered(types: &[Type]) -> bool {
    let is_number = |ty: &Type| matches!(ty, Type::Int | Type::Uint | Type::Double);
    let is_ordered = |ty: &Type| {
        is_number(ty)
            || matches!(
                ty,
                Type::Dyn
                    | Type::Any(_)
                    | Type::Bool
                    | Type::String
                    | Type::Bytes
                    | Type::Timestamp
                    | Type::Duration
            )
    };
    match types {
        [a, b] if is_ordered(a) && is_ordered(b) => (is_number(a) && is_number(b)) || a.join(b).is_some(),
        _ => false,
    }
}

/// What a call gives; `None` if there is no such way to call it.
fn matching(overloads: &[overloads::Overload], is_method: bool, types: &[Type]) -> Option<Type> {
    let mut gives: Option<Type> = None;
    for overload in overloads {
        if overload.is_method != is_method || overload.takes.len() != types.len() {
            continue;
        }
        let mut letters = [const { None }; 4];
        if overload.takes.iter().zip(types).all(|(takes, given)| takes.takes(given, &mut letters)) {
            let ty = overload.gives.filled(&letters);
            gives = Some(match gives {
                Some(other) if other != ty => Type::Dyn,
                _ => ty,
            });
        }
    }
    gives
}

/// Whether a call is a choice between two.
pub(super) fn is_conditional(call: &CallExpr) -> bool {
    call.func_name == CONDITIONAL && call.args.len() == 3
}
