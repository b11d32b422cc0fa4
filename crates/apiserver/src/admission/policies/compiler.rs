//! Compiles the expressions of one policy, each with the variables that stand at its place.

use crate::cel::{Environment, Expression, Type};

/// For one policy: `variable`s first, in their order, then the rest.
pub(crate) struct Compiler {
    environment: Environment,
}

type Compiled = Result<Expression, String>;

impl Compiler {
    pub(crate) fn new(has_params: bool, has_variables: bool) -> Self {
        let variables = has_variables.then(Vec::new);
        Self { environment: Environment { params: has_params, authorizer: true, variables } }
    }

    /// Compiles a variable, which those after it can name whether it compiles or not.
    pub(crate) fn variable(&mut self, name: &str, source: &str) -> Compiled {
        let compiled = Expression::compile(source, &self.environment, &[]);
        let ty = compiled.as_ref().map_or(Type::Dyn, |expression| expression.ty.clone());
        self.environment.variables.get_or_insert_default().push((name.to_owned(), ty));
        compiled
    }

    /// Compiled before there are variables.
    pub(crate) fn match_condition(&self, source: &str) -> Compiled {
        let environment = Environment { variables: None, ..self.environment.clone() };
        Expression::compile(source, &environment, &[Type::Bool])
    }

    pub(crate) fn validation(&self, source: &str) -> Compiled {
        Expression::compile(source, &self.environment, &[Type::Bool])
    }

    /// A message says nothing of the rights of whoever asks.
    pub(crate) fn message(&self, source: &str) -> Compiled {
        let environment = Environment { authorizer: false, ..self.environment.clone() };
        Expression::compile(source, &environment, &[Type::String])
    }

    pub(crate) fn audit_annotation(&self, source: &str) -> Compiled {
        Expression::compile(source, &self.environment, &[Type::String, Type::Null])
    }
}
