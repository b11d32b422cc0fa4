//! One policy with its bindings, compiled, and its judgement of a request.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::attempt::Attempt;
use super::compiler::Compiler;
use super::evaluation::{Inputs, Outcome};
use super::matching::{Matched, Matching, stored_namespace};
use super::params::{self, ParamKind};
use super::verdict::{Denial, Verdict};
use crate::cel::Expression;
use crate::error::ApiError;
use crate::object;
use crate::resource::Resource;
use crate::rest::convert;
use crate::server::Server;
use crate::store::Stored;

/// A policy that is in force.
pub(super) struct Policy {
    name: String,
    revision: u64,
    pub program: Arc<Program>,
    bindings: Vec<Binding>,
}

struct Binding {
    name: String,
    matching: Option<Matching>,
    params: Value,
    actions: Vec<String>,
}

/// What a policy says, compiled. An expression that no longer compiles says so each time.
pub(super) struct Program {
    matching: Matching,
    pub ignores_failures: bool,
    param_kind: Option<ParamKind>,
    pub match_conditions: Vec<Compiled>,
    pub variables: Vec<(String, Compiled)>,
    pub validations: Vec<Validation>,
    pub audit_annotations: Vec<Compiled>,
}

pub(super) type Compiled = Result<Expression, String>;

pub(super) struct Validation {
    pub source: String,
    pub expression: Compiled,
    pub message: Option<String>,
    pub message_expression: Option<Compiled>,
    pub reason: Option<String>,
}

impl Policy {
    /// `program` is what was made of the same object before.
    pub(super) fn new(stored: &Stored, program: Option<Arc<Program>>, bindings: &[Value]) -> Self {
        Self {
            name: stored.key.name.to_string(),
            revision: stored.revision,
            program: program.unwrap_or_else(|| Arc::new(Program::new(&stored.value()["spec"]))),
            bindings: bindings.iter().map(Binding::new).collect(),
        }
    }

    pub(super) fn is_of(&self, stored: &Stored) -> bool {
        self.revision == stored.revision && *self.name == *stored.key.name
    }

    pub(super) fn plurals(&self) -> impl Iterator<Item = &str> {
        self.program.matching.plurals()
    }

    pub(super) fn is_about_everything(&self) -> bool {
        self.plurals().any(|plural| plural == "*")
    }

    /// Adds what it says to a request, for each of its bindings and their params.
    pub(super) fn judge(
        &self,
        server: &Server,
        attempt: &Attempt<'_>,
        verdict: &mut Verdict,
    ) -> Result<(), ApiError> {
        let program = &*self.program;
        let refuse = |verdict: &mut Verdict, binding: Option<&Binding>, error: String| {
            if program.ignores_failures {
                return;
            }
            let what = if binding.is_some() { "binding" } else { "policy" };
            verdict.denials.push(Denial {
                policy: self.name.clone(),
                binding: binding.map(|binding| binding.name.clone()),
                message: format!("failed to configure {what}: {error}"),
                reason: None,
            });
        };
        let matched = match program.matching.find(server, attempt) {
            Ok(Matched::No) => return Ok(()),
            Ok(Matched::AsAsked) => None,
            Ok(Matched::As(other)) => Some(other),
            Err(error) => {
                refuse(verdict, None, error);
                return Ok(());
            }
        };
        let params = match program.param_kind.as_ref().map(|kind| kind.find(server)).transpose() {
            Ok(resource) => resource,
            Err(error) => {
                refuse(verdict, None, error);
                return Ok(());
            }
        };
        let mut prepared = None;
        for binding in &self.bindings {
            let is_meant = binding.matching.as_ref().map_or(Ok(true), |matching| {
                matching.find(server, attempt).map(|found| !matches!(found, Matched::No))
            });
            let params = match is_meant {
                Ok(false) => continue,
                Ok(true) => params::collect(server, params.as_deref(), &binding.params, attempt),
                Err(error) => Err(error),
            };
            let params = match params {
                Ok(params) => params,
                Err(error) => {
                    refuse(verdict, Some(binding), error);
                    continue;
                }
            };
            if prepared.is_none() {
                prepared = Some(prepare(server, attempt, matched.as_deref())?);
            }
            let Some(inputs) = &prepared else { continue };
            for param in &params {
                let outcome = inputs.run(program, param.as_ref());
                self.note(binding, outcome, verdict);
            }
        }
        Ok(())
    }

    fn note(&self, binding: &Binding, outcome: Outcome, verdict: &mut Verdict) {
        for failure in outcome.failures {
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => verdict.denials.push(Denial {
                        policy: self.name.clone(),
                        binding: Some(binding.name.clone()),
                        message: failure.message.clone(),
                        reason: failure.reason.clone(),
                    }),
                    "Warn" => verdict.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        self.name, binding.name, failure.message
                    )),
                    // There is no audit log beside the server's own.
                    _ => tracing::info!(
                        policy = self.name,
                        binding = binding.name,
                        message = failure.message,
                        "a request fails a policy's validation"
                    ),
                }
            }
        }
        verdict.denials.extend(outcome.annotation_errors.into_iter().map(|message| Denial {
            policy: self.name.clone(),
            binding: Some(binding.name.clone()),
            message,
            reason: None,
        }));
    }
}

/// What expressions see of a request, but for the params.
fn prepare<'a>(
    server: &'a Server,
    attempt: &'a Attempt<'_>,
    matched: Option<&'a Resource>,
) -> Result<Inputs<'a>, ApiError> {
    let namespace = match attempt.namespace {
        "" => None,
        _ if attempt.is_of_namespaces() => None,
        name => {
            Some(stored_namespace(server, name).map_err(|_| ApiError::not_found("", "namespaces", name))?)
        }
    };
    Ok(Inputs {
        access: &server.access,
        attempt,
        request: attempt.request(matched.unwrap_or(attempt.resource)),
        object: in_version(attempt, matched, attempt.object.as_deref()),
        old: in_version(attempt, matched, attempt.old.as_deref()),
        namespace: namespace.map(|namespace| shown_namespace(&namespace)),
    })
}

/// An object in the version that the policy asks for.
fn in_version<'a>(
    attempt: &Attempt<'_>,
    matched: Option<&Resource>,
    object: Option<&'a Value>,
) -> Option<Cow<'a, Value>> {
    let object = object?;
    Some(match matched.filter(|_| attempt.kind.is_none()) {
        Some(other) => Cow::Owned(convert(attempt.resource, other, object.clone())),
        None => Cow::Borrowed(object),
    })
}

/// A namespace as expressions see it.
fn shown_namespace(namespace: &Value) -> Value {
    let mut shown =
        serde_json::json!({"metadata": {}, "spec": namespace["spec"], "status": namespace["status"]});
    for field in [
        "name",
        "generateName",
        "labels",
        "annotations",
        "uid",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "resourceVersion",
        "finalizers",
    ] {
        if let Some(value) = namespace["metadata"].get(field) {
            object::metadata_mut(&mut shown).insert(field.to_owned(), value.clone());
        }
    }
    shown
}

impl Binding {
    fn new(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let actions = spec["validationActions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self {
            name: object::name(binding).to_owned(),
            matching: spec["matchResources"].is_object().then(|| Matching::new(&spec["matchResources"])),
            params: spec["paramRef"].clone(),
            actions: actions.map(str::to_owned).collect(),
        }
    }
}

impl Program {
    fn new(spec: &Value) -> Self {
        let items = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
        let some = |item: &Value, field: &str| Some(text(item, field)).filter(|text| !text.trim().is_empty());
        let param_kind = ParamKind::new(&spec["paramKind"]);
        let mut compiler = Compiler::new(param_kind.is_some(), true);
        let match_conditions = items("matchConditions")
            .map(|item| compiler.match_condition(&text(item, "expression")))
            .collect();
        let variables = items("variables")
            .map(|item| {
                let name = text(item, "name");
                let compiled = compiler.variable(&name, &text(item, "expression"));
                (name, compiled)
            })
            .collect();
        let validations = items("validations").map(|item| Validation {
            source: text(item, "expression"),
            expression: compiler.validation(&text(item, "expression")),
            message: some(item, "message"),
            message_expression: some(item, "messageExpression").map(|source| compiler.message(&source)),
            reason: some(item, "reason"),
        });
        let audit_annotations =
            items("auditAnnotations").map(|item| compiler.audit_annotation(&text(item, "valueExpression")));
        Self {
            matching: Matching::new(&spec["matchConstraints"]),
            ignores_failures: spec["failurePolicy"] == "Ignore",
            match_conditions,
            variables,
            validations: validations.collect(),
            audit_annotations: audit_annotations.collect(),
            param_kind,
        }
    }
}
