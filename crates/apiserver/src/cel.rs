//! CEL, for the rules of schemas and the expressions of admission policies: what the `cel` crate evaluates, with what it
//! lacks of Kubernetes' language.
//!
//! Rules are checked against their schema where they are kept (`schema::rules`); expressions of policies against the
//! variables that they have, by `check`.

mod authorizer;
mod check;
mod cost;
mod functions;
mod macros;
mod overloads;
mod parse;
mod policy;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use authorizer::{Authorizer, ResourceCheck};
pub(crate) use cost::{EXCEEDED, limited};
pub(crate) use functions::{FUNCTIONS, cause_of, is_function, optional};
pub(crate) use macros::expand;
pub(crate) use parse::parse_shared;
pub(crate) use policy::{Environment, Expression, REQUEST_RESOURCE, VARIABLE, plain, sized};
pub(crate) use types::Type;

/// Longer messages of a `messageExpression` are not used.
const MAX_MESSAGE: usize = 5 << 10;

/// What a `messageExpression` gave, if it can be shown.
pub(crate) fn usable_message(text: &str) -> Option<String> {
    let text = text.trim();
    let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    usable.then(|| text.to_owned())
}
