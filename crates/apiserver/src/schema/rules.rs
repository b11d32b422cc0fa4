//! The CEL rules of a schema (`x-kubernetes-validations`): where they are, and running them over an object with its
//! old state.

mod program;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::check::Correlation;
use super::path::Path;
use super::{Node, Type, cel};
use crate::cel::optional;
use crate::error::{FieldError, FieldErrorKind};
use program::Program;

/// The rules at one level and below it. Levels without any rule below them do not exist here.
#[derive(Debug, Default)]
pub(super) struct Rules {
    here: Vec<Rule>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
}

/// One rule as written, compiled when it is first needed.
#[derive(Debug)]
struct Rule {
    source: Value,
    compiled: OnceLock<Result<Program, String>>,
}

impl Rules {
    /// The rules of a schema, or `None` when it has none at all.
    pub(super) fn collect(node: &Node) -> Option<Self> {
        let rule = |source: &Value| Rule { source: source.clone(), compiled: OnceLock::new() };
        let below = |child: Option<&Node>| child.and_then(Self::collect).map(Box::new);
        let rules = Self {
            here: node.validations.iter().map(rule).collect(),
            properties: node
                .properties
                .iter()
                .filter_map(|(name, child)| Some((name.clone(), Self::collect(child)?)))
                .collect(),
            items: below(node.items.as_deref()),
            additional: below(node.additional.as_deref()),
        };
        let empty = rules.here.is_empty()
            && rules.properties.is_empty()
            && rules.items.is_none()
            && rules.additional.is_none();
        (!empty).then_some(rules)
    }

    /// Compiles every rule and reports those that do not compile, with their place in the schema.
    pub(super) fn compile_all(&self, path: &str, node: &Node, errors: &mut Vec<FieldError>) {
        self.compile_below(path, node, true, true, errors);
    }

    /// `correlated`: whether an object's old state can be found at this level.
    fn compile_below(
        &self,
        path: &str,
        node: &Node,
        root: bool,
        correlated: bool,
        errors: &mut Vec<FieldError>,
    ) {
        for (i, rule) in self.here.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{i}]");
            rule.report(&path, node, root, correlated, errors);
        }
        for (name, rules) in &self.properties {
            if let Some(child) = node.properties.get(name) {
                rules.compile_below(&format!("{path}.properties[{name}]"), child, false, correlated, errors);
            }
        }
        if let (Some(rules), Some(child)) = (&self.items, node.items.as_deref()) {
            let correlated = correlated && matches!(node.list_type, super::ListType::Map(_));
            rules.compile_below(&format!("{path}.items"), child, false, correlated, errors);
        }
        if let (Some(rules), Some(child)) = (&self.additional, node.additional.as_deref()) {
            rules.compile_below(&format!("{path}.additionalProperties"), child, false, correlated, errors);
        }
    }

    /// Runs the rules over a whole object.
    pub(super) fn evaluate(
        &self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) {
        self.evaluate_at(node, value, Before { old, unchanged: false }, &Path::Root, errors);
    }

    /// Rules judge only what is not null.
    fn evaluate_at(
        &self,
        node: &Node,
        value: &Value,
        before: Before<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        if value.is_null() {
            return;
        }
        let old = before.old.filter(|o| !o.is_null());
        let before = Before { old, unchanged: before.unchanged || old == Some(value) };
        self.evaluate_here(node, value, before, path, errors);
        match value {
            Value::Array(items) => {
                let (Some(rules), Some(schema)) = (&self.items, node.items.as_deref()) else {
                    return;
                };
                let correlation = Correlation::new(&node.list_type, old);
                for (i, item) in items.iter().enumerate() {
                    let before = Before { old: correlation.find(item), ..before };
                    rules.evaluate_at(schema, item, before, &Path::Index(path, i), errors);
                }
            }
            Value::Object(map) => self.evaluate_fields(node, map, before, path, errors),
            _ => {}
        }
    }

    fn evaluate_fields(
        &self,
        node: &Node,
        map: &Map<String, Value>,
        before: Before<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        for (name, rules) in &self.properties {
            if let (Some(child), Some(schema)) = (map.get(name), node.properties.get(name)) {
                rules.evaluate_at(schema, child, before.field(name), &Path::Field(path, name), errors);
            }
        }
        if let (Some(rules), Some(schema)) = (&self.additional, node.additional.as_deref()) {
            for (key, child) in map.iter().filter(|(key, _)| !node.properties.contains_key(*key)) {
                rules.evaluate_at(schema, child, before.field(key), &Path::Key(path, key), errors);
            }
        }
    }

    fn evaluate_here(
        &self,
        node: &Node,
        value: &Value,
        before: Before<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        if self.here.is_empty() {
            return;
        }
        let root = matches!(path, Path::Root);
        let Before { old, unchanged } = before;
        let mut this = None;
        let mut that = None;
        for rule in &self.here {
            let program = match rule.program(node, root) {
                Ok(program) => program,
                Err(error) => {
                    let detail = format!("rule compile error: {error}");
                    errors.push(FieldError::invalid(path.keyed(), &type_of(node), detail));
                    continue;
                }
            };
            let skipped = if program.uses_old {
                old.is_none() && !program.optional_old
            } else {
                // What has not changed was accepted before.
                unchanged
            };
            if skipped {
                continue;
            }
            let this = this.get_or_insert_with(|| cel::to_cel(Some(node), value)).clone();
            let that = if program.uses_old {
                let that = that.get_or_insert_with(|| old.map(|o| cel::to_cel(Some(node), o))).clone();
                if program.optional_old { Some(optional(that)) } else { that }
            } else {
                None
            };
            if let Err(failure) = program.run(this, that) {
                errors.push(failure.into_field_error(program, node, value, path));
            }
        }
    }
}

/// What is known of a level's earlier state.
#[derive(Clone, Copy)]
struct Before<'a> {
    old: Option<&'a Value>,
    /// Whether this level, or one around it, equals what was accepted before.
    unchanged: bool,
}

impl<'a> Before<'a> {
    fn field(self, name: &str) -> Self {
        Self { old: self.old.and_then(|o: &'a Value| o.get(name)), ..self }
    }
}

impl Rule {
    fn program(&self, node: &Node, root: bool) -> Result<&Program, &str> {
        let compiled = self.compiled.get_or_init(|| Program::compile(&self.source, node, root));
        compiled.as_ref().map_err(String::as_str)
    }

    fn report(&self, path: &str, node: &Node, root: bool, correlated: bool, errors: &mut Vec<FieldError>) {
        match self.program(node, root) {
            Err(error) if error.starts_with("rule ") || self.source["rule"].as_str().is_none() => {
                errors.push(FieldError::required(format!("{path}.rule"), error));
            }
            Err(error) => {
                let detail = format!("compilation failed: {error}");
                errors.push(FieldError::invalid(format!("{path}.rule"), &self.source, detail));
            }
            Ok(program) if program.uses_old && !correlated => {
                let detail = "oldSelf cannot be used on the uncorrelatable portion of the schema: \
                              a list on the way there is not of x-kubernetes-list-type map";
                errors.push(FieldError::invalid(format!("{path}.rule"), &self.source["rule"], detail));
            }
            Ok(_) => {}
        }
    }
}

/// Why a rule did not hold.
enum Failure {
    False(String),
    Error(String),
}

impl Failure {
    fn into_field_error(self, program: &Program, node: &Node, value: &Value, path: &Path<'_>) -> FieldError {
        let place = path.keyed();
        let detail = match self {
            Self::Error(error) => return FieldError::invalid(place, &type_of(node), error),
            Self::False(detail) => detail,
        };
        let place = format!("{place}{}", program.field_path);
        let place = place.strip_prefix('.').unwrap_or(&place);
        let kind = program.reason;
        let error = FieldError::new(kind, place, detail);
        match (kind, value) {
            // What does not fit on a line is not shown, as in Kubernetes.
            (_, Value::Object(_) | Value::Array(_)) => error,
            (FieldErrorKind::Invalid | FieldErrorKind::Duplicate, plain) => error.with_value(plain),
            _ => error,
        }
    }
}

/// Kubernetes shows the type in place of a value that may be large.
fn type_of(node: &Node) -> Value {
    json!(node.ty.map_or("", Type::name))
}
