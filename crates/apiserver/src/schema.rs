//! What an object of one kind and version may look like: pruning, defaulting and validation by an OpenAPI v3
//! structural schema, with its CEL rules. Custom and built-in kinds use the same machinery.

mod cel;
mod check;
mod decode;
mod default;
mod format;
mod node;
mod parse;
mod path;
mod prune;
mod rules;
mod structural;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use regex::Regex;
use serde_json::Value;

use crate::error::{FieldError, FieldErrorKind};

pub(crate) use cel::is_reserved;
pub(crate) use format::{is_label, is_subdomain};
pub(crate) use node::{ListType, MapType, Node, Type};

pub(crate) use structural::check_structural;

use path::Path;
use rules::Rules;

/// A schema ready for use: the tree, its regular expressions and its CEL rules.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub root: Arc<Node>,
    /// By pattern, compiled at first use: a server starts with hundreds of patterns and uses few of them.
    patterns: HashMap<String, OnceLock<Option<Regex>>>,
    rules: Option<Rules>,
}

impl Schema {
    /// From the `openAPIV3Schema` of a CRD version; refuses one whose shape, patterns or CEL rules are wrong.
    #[cfg(test)]
    pub(crate) fn compile(openapi: &Value) -> Result<Self, Vec<FieldError>> {
        let path = "openAPIV3Schema";
        let schema = Self::from_node(Arc::new(Node::parse(path, openapi)?));
        let mut errors = Vec::new();
        for pattern in schema.patterns.keys() {
            if let Err(error) = build_regex(pattern) {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                errors.push(FieldError::invalid(path, &Value::from(pattern.as_str()), detail));
            }
        }
        errors.extend(schema.check_rules(path));
        if errors.is_empty() { Ok(schema) } else { Err(errors) }
    }

    /// From a tree that is known to be good: patterns and rules are compiled when they are first needed.
    pub(crate) fn from_node(root: Arc<Node>) -> Self {
        let mut patterns = HashMap::new();
        collect_patterns(&root, &mut patterns);
        let rules = Rules::collect(&root);
        Self { root, patterns, rules }
    }

    /// Compiles the CEL rules at once and tells which of them are wrong; `path` is the place of the schema.
    pub(crate) fn check_rules(&self, path: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(rules) = &self.rules {
            rules.compile_all(path, &self.root, &mut errors);
        }
        errors
    }

    /// Paths of the fields that the schema does not know: `spec.foo`, `spec.list[0].bar`.
    pub(crate) fn unknown_fields(&self, object: &Value) -> Vec<String> {
        prune::unknown(&self.root, object)
    }

    /// Removes the fields that the schema does not know.
    pub(crate) fn prune(&self, object: &mut Value) {
        prune::prune(&self.root, object);
    }

    /// Fills in the schema's defaults, and drops nulls where the schema allows none.
    pub(crate) fn default(&self, object: &mut Value) {
        default::apply(&self.root, object);
    }

    /// Everything wrong with `new`. With `old`, transition rules run too, and what has not changed is not judged
    /// again, so that an object older than a tightened schema can still be updated elsewhere.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check::Checker { schema: self, errors: &mut errors }.check(&self.root, new, old, &Path::Root);
        let Some(rules) = &self.rules else {
            return errors;
        };
        if errors.iter().any(|e| blocks_rules(e.kind)) {
            errors.push(FieldError::invalid(
                "",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
        } else {
            rules.evaluate(&self.root, new, old, &mut errors);
        }
        errors
    }

    fn pattern(&self, pattern: &str) -> Option<&Regex> {
        self.patterns.get(pattern)?.get_or_init(|| build_regex(pattern).ok()).as_ref()
    }
}

/// CEL rules may assume that types, required fields and limits hold, so they do not run when those failed.
fn blocks_rules(kind: FieldErrorKind) -> bool {
    matches!(
        kind,
        FieldErrorKind::NotSupported
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany
            | FieldErrorKind::TypeInvalid
    )
}

/// Kubernetes limits a pattern only by the request's size, so the limit is far above the crate's default.
pub(crate) fn build_regex(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(64 << 20).build()
}

fn collect_patterns(node: &Node, patterns: &mut HashMap<String, OnceLock<Option<Regex>>>) {
    if let Some(pattern) = &node.pattern {
        patterns.entry(pattern.clone()).or_default();
    }
    let children = node.properties.values().chain(&node.additional).chain(&node.items).map(Arc::as_ref);
    let branches = node.all_of.iter().chain(&node.any_of).chain(&node.one_of).chain(node.not.as_deref());
    for child in children.chain(branches) {
        collect_patterns(child, patterns);
    }
}
