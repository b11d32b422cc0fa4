//! What happens to an expression between parsing and running: names and fields are checked against the schema, and
//! the macros that the `cel` crate lacks become expressions that it knows.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, SelectExpr};

use crate::cel::{expand, is_function, sized};
use crate::schema::{Node, Type, cel};

/// The schema of an expression's value, where it is known.
type Known<'n> = Option<&'n Node>;

/// Checks and rewrites a rule that stands at `node`; `root` is the level with `apiVersion` and `kind`.
pub(super) fn prepare(expression: &mut IdedExpr, node: &Node, root: bool) -> Result<(), String> {
    let variables = vec![("self".to_owned(), Some(node)), ("oldSelf".to_owned(), None)];
    Walk { variables, top: root.then_some(node) }.visit(expression).map(|_| ())
}

struct Walk<'n> {
    variables: Vec<(String, Known<'n>)>,
    /// The schema in which type and object metadata are fields even if it does not declare them.
    top: Option<&'n Node>,
}

impl<'n> Walk<'n> {
    fn visit(&mut self, expression: &mut IdedExpr) -> Result<Known<'n>, String> {
        match &mut expression.expr {
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => match expand(call) {
                Some(replacement) => {
                    expression.expr = replacement;
                    self.visit(expression)
                }
                None => self.call(call),
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                for element in &mut list.elements {
                    self.visit(element)?;
                }
                Ok(None)
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.visit(&mut entry.key)?;
                        self.visit(&mut entry.value)?;
                    }
                }
                Ok(None)
            }
            Expr::Literal(_) => Ok(None),
            Expr::Struct(message) => Err(format!("undeclared reference to '{}'", message.type_name)),
            Expr::Unspecified => Err("the expression is incomplete".to_owned()),
        }
    }

    fn variable(&self, name: &str) -> Result<Known<'n>, String> {
        let found = self.variables.iter().rev().find(|(variable, _)| variable == name);
        found
            .map(|(_, known)| *known)
            .ok_or_else(|| format!("undeclared reference to '{name}' (in container '')"))
    }

    fn select(&mut self, select: &mut SelectExpr) -> Result<Known<'n>, String> {
        let Some(node) = self.visit(&mut select.operand)? else {
            return Ok(None);
        };
        let scalar = match node.ty {
            Some(ty @ (Type::Boolean | Type::Integer | Type::Number | Type::String)) => Some(ty.name()),
            Some(Type::Array) => Some("list"),
            Some(Type::Object) | None => None,
        };
        if let Some(name) = scalar {
            return Err(format!("type '{name}' does not support field selection of '{}'", select.field));
        }
        if let Some(values) = node.additional.as_deref() {
            return Ok(Some(values));
        }
        // A keyword may be written as it is, where it can only be a field.
        if cel::is_reserved(&select.field) && node.properties.contains_key(&select.field) {
            select.field = cel::escape(&select.field);
        }
        let declared = node.properties.iter().find(|(name, _)| cel::escape(name) == select.field);
        let is_meta = || matches!(select.field.as_str(), "apiVersion" | "kind" | "metadata");
        match declared {
            Some((_, field)) => Ok(Some(field)),
            None if node.properties.is_empty() || node.preserve_unknown_fields => Ok(None),
            None if is_meta() && (node.embedded_resource || self.is_top(node)) => Ok(None),
            None => Err(format!("undefined field '{}'", select.field)),
        }
    }

    fn is_top(&self, node: &Node) -> bool {
        self.top.is_some_and(|top| std::ptr::eq(top, node))
    }

    fn call(&mut self, call: &mut CallExpr) -> Result<Known<'n>, String> {
        if let Some(target) = &mut call.target {
            // `math.greatest(...)`: the target is a part of the name.
            let qualified = match &target.expr {
                Expr::Ident(prefix) if self.variable(prefix).is_err() => {
                    is_function(&format!("{prefix}.{}", call.func_name))
                }
                _ => false,
            };
            if !qualified {
                self.visit(target)?;
                require_function(&call.func_name)?;
            }
        } else if call.func_name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            require_function(&call.func_name)?;
        }
        let mut known = Vec::with_capacity(call.args.len());
        for arg in &mut call.args {
            known.push(self.visit(arg)?);
        }
        // By itself it would say of a field that is not there only that it has no argument.
        if call.func_name == "size" && call.target.is_none() {
            call.args.iter_mut().for_each(sized);
        }
        if call.func_name == "_[_]"
            && let Some(Some(node)) = known.first()
        {
            return Ok(node.items.as_deref().or(node.additional.as_deref()));
        }
        Ok(None)
    }

    fn comprehension(&mut self, comprehension: &mut ComprehensionExpr) -> Result<Known<'n>, String> {
        let range = self.visit(&mut comprehension.iter_range)?;
        let initial = self.visit(&mut comprehension.accu_init)?;
        let item = range.and_then(|node| node.items.as_deref());
        let outer = self.variables.len();
        self.variables.push((comprehension.accu_var.clone(), initial));
        // The result does not see the loop's variable.
        let result = self.visit(&mut comprehension.result)?;
        self.variables.push((comprehension.iter_var.clone(), item));
        self.visit(&mut comprehension.loop_cond)?;
        self.visit(&mut comprehension.loop_step)?;
        self.variables.truncate(outer);
        Ok(result)
    }
}

fn require_function(name: &str) -> Result<(), String> {
    if is_function(name) {
        Ok(())
    } else {
        Err(format!("undeclared reference to '{name}' (in container '')"))
    }
}
