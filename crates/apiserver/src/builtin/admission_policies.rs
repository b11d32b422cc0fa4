//! ValidatingAdmissionPolicies and their bindings, as kinds. What they do to requests is `admission::policies`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::check::{Errors, join};
use super::json::{child, fill, is_set, items, items_mut, text, texts};
use super::kind::Kind;
use super::{print, syntax};
use crate::admission::policies::{Compiler, GROUP};
use crate::error::{FieldError, FieldErrorKind};
use crate::object;
use crate::resource::{Resource, Strategy};

const MAX_MATCH_CONDITIONS: usize = 64;
const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_AUDIT_EXPRESSION: usize = 5 << 10;

pub(super) fn kinds() -> Vec<Resource> {
    let kind =
        |kind, plural| Kind::new(GROUP, "v1", kind, plural).cluster_scoped().categories(&["api-extensions"]);
    vec![
        kind("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
            .status()
            .columns(print::POLICY, print::policy)
            .strategy(Policy)
            .build(),
        kind("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings")
            .columns(print::POLICY_BINDING, print::policy_binding)
            .strategy(Binding)
            .build(),
    ]
}

struct Policy;

impl Strategy for Policy {
    fn default(&self, policy: &mut Value) {
        let Some(spec) = child(policy, "spec") else { return };
        fill(spec, "failurePolicy", "Fail");
        default_match(spec, "matchConstraints");
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let spec = &new["spec"];
        errors.one_of(spec, "spec", "failurePolicy", &["Fail", "Ignore"], true);
        if is_set(spec, "paramKind") {
            param_kind(&spec["paramKind"], "spec.paramKind", &mut errors);
        }
        if is_set(spec, "matchConstraints") {
            match_resources(&spec["matchConstraints"], "spec.matchConstraints", &mut errors);
            errors.need(&spec["matchConstraints"], "spec.matchConstraints", "resourceRules");
        } else {
            errors.required("spec.matchConstraints", "");
        }
        let mut compiler = Compiler::new(is_set(spec, "paramKind"), !items(spec, "variables").is_empty());
        // What was accepted earlier stays so.
        let same = |old: &Value, field: &str| old["spec"][field] == spec[field];
        if !old.is_some_and(|old| same(old, "paramKind") && same(old, "matchConditions")) {
            match_conditions(spec, &compiler, &mut errors);
        }
        for (i, variable) in items(spec, "variables").iter().enumerate() {
            self::variable(variable, &format!("spec.variables[{i}]"), &mut compiler, &mut errors);
        }
        if items(spec, "validations").is_empty() && items(spec, "auditAnnotations").is_empty() {
            for field in ["spec.validations", "spec.auditAnnotations"] {
                errors.required(field, "validations or auditAnnotations must contain at least one item");
            }
            return errors.into_vec();
        }
        for (i, rule) in items(spec, "validations").iter().enumerate() {
            validation(rule, &format!("spec.validations[{i}]"), &compiler, &mut errors);
        }
        audit_annotations(new, &compiler, &mut errors);
        for (i, warning) in items(&new["status"]["typeChecking"], "expressionWarnings").iter().enumerate() {
            let path = format!("status.typeChecking.expressionWarnings[{i}]");
            errors.need(warning, &path, "warning");
            errors.need(warning, &path, "fieldRef");
        }
        errors.into_vec()
    }
}

struct Binding;

impl Strategy for Binding {
    fn default(&self, binding: &mut Value) {
        if let Some(spec) = child(binding, "spec") {
            default_match(spec, "matchResources");
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let spec = &new["spec"];
        if errors.need(spec, "spec", "policyName") {
            let name = text(spec, "policyName");
            errors.complain("spec.policyName", name, syntax::subdomain(name));
        }
        if is_set(spec, "paramRef") {
            param_ref(&spec["paramRef"], "spec.paramRef", &mut errors);
        }
        if is_set(spec, "matchResources") {
            match_resources(&spec["matchResources"], "spec.matchResources", &mut errors);
        }
        validation_actions(spec, &mut errors);
        errors.into_vec()
    }
}

fn default_match(spec: &mut Value, field: &str) {
    let Some(wanted) = child(spec, field) else { return };
    fill(wanted, "matchPolicy", "Equivalent");
    fill(wanted, "namespaceSelector", json!({}));
    fill(wanted, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(wanted, list) {
            fill(rule, "scope", "*");
        }
    }
}

fn param_kind(kind: &Value, path: &str, errors: &mut Errors) {
    if errors.need(kind, path, "apiVersion") {
        let (at, api_version) = (join(path, "apiVersion"), text(kind, "apiVersion"));
        let parts: Vec<&str> = api_version.split('/').collect();
        match parts.as_slice() {
            _ if api_version == "/" => errors.invalid(at, api_version, "version must be specified"),
            [version] => group_version("", version, api_version, &at, errors),
            [group, version] => group_version(group, version, api_version, &at, errors),
            _ => errors.invalid(at, api_version, format!("unexpected GroupVersion string: {api_version}")),
        }
    }
    if errors.need(kind, path, "kind") {
        let name = text(kind, "kind");
        let complaints = syntax::dns_1035_label(&name.to_lowercase());
        if !complaints.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
            errors.invalid(join(path, "kind"), name, why);
        }
    }
}

fn group_version(group: &str, version: &str, whole: &str, path: &str, errors: &mut Errors) {
    if !group.is_empty() {
        let complaints = syntax::subdomain(group);
        if !complaints.is_empty() {
            errors.invalid(path, group, complaints.join(","));
        }
    }
    if version.is_empty() {
        errors.invalid(path, whole, "version must be specified");
        return;
    }
    let complaints = syntax::dns_1035_label(version);
    if !complaints.is_empty() {
        errors.invalid(path, version, complaints.join(","));
    }
}

fn match_resources(wanted: &Value, path: &str, errors: &mut Errors) {
    errors.one_of(wanted, path, "matchPolicy", &["Equivalent", "Exact"], true);
    for selector in ["namespaceSelector", "objectSelector"] {
        errors.selector(&wanted[selector], &join(path, selector));
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in items(wanted, list).iter().enumerate() {
            resource_rule(rule, &format!("{path}.{list}[{i}]"), errors);
        }
    }
}

fn resource_rule(rule: &Value, path: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, name) in texts(rule, "resourceNames").into_iter().enumerate() {
        let at = format!("{path}.resourceNames[{i}]");
        errors.complain(&at, name, syntax::path_segment(name));
        if !seen.insert(name) {
            errors.duplicate(at, name);
        }
    }
    exclusive_wildcard(rule, path, "operations", "operations", errors);
    for (i, operation) in texts(rule, "operations").into_iter().enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        if !known.contains(&operation) {
            let at = format!("{path}.operations[{i}]");
            errors.push(FieldError::not_supported(at, &operation.into(), &known));
        }
    }
    exclusive_wildcard(rule, path, "apiGroups", "API groups", errors);
    exclusive_wildcard(rule, path, "apiVersions", "API versions", errors);
    for (i, version) in texts(rule, "apiVersions").into_iter().enumerate() {
        if version.is_empty() {
            errors.required(format!("{path}.apiVersions[{i}]"), "");
        }
    }
    resources(rule, &join(path, "resources"), errors);
    errors.one_of(rule, path, "scope", &["*", "Cluster", "Namespaced"], false);
}

/// A list that is needed, and in which `*` stands alone.
fn exclusive_wildcard(rule: &Value, path: &str, field: &str, words: &str, errors: &mut Errors) {
    if !errors.need(rule, path, field) {
        return;
    }
    let list = texts(rule, field);
    if list.len() > 1 && list.contains(&"*") {
        let why = format!("if '*' is present, must not specify other {words}");
        errors.invalid(join(path, field), rule[field].clone(), why);
    }
}

fn resources(rule: &Value, path: &str, errors: &mut Errors) {
    let list = texts(rule, "resources");
    if list.is_empty() {
        errors.required(path, "");
    }
    let (mut all_below, mut of_all) = (BTreeSet::new(), BTreeSet::new());
    let mut has_plain = false;
    for (i, named) in list.iter().enumerate() {
        let at = format!("{path}[{i}]");
        if named.is_empty() {
            errors.required(at, "");
            continue;
        }
        let Some((resource, subresource)) = named.split_once('/') else {
            has_plain = *named != "*";
            continue;
        };
        if all_below.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {named}");
            errors.invalid(at.clone(), *named, why);
        }
        if of_all.contains(subresource) {
            let why = format!("if '*/{subresource}' is present, must not specify {named}");
            errors.invalid(at, *named, why);
        }
        if subresource == "*" {
            all_below.insert(resource);
        }
        if resource == "*" {
            of_all.insert(subresource);
        }
    }
    let value = || rule["resources"].clone();
    if list.len() > 1 && list.contains(&"*/*") {
        errors.invalid(path, value(), "if '*/*' is present, must not specify other resources");
    }
    if list.contains(&"*") && has_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, value(), why);
    }
}

fn match_conditions(spec: &Value, compiler: &Compiler, errors: &mut Errors) {
    let path = "spec.matchConditions";
    let conditions = items(spec, "matchConditions");
    if conditions.len() > MAX_MATCH_CONDITIONS {
        let why = format!("must have at most {MAX_MATCH_CONDITIONS} items");
        let error = FieldError::new(FieldErrorKind::TooMany, path, why);
        errors.push(error.with_value(&conditions.len().into()));
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let at = format!("{path}[{i}]");
        let expression = text(condition, "expression").trim();
        if expression.is_empty() {
            errors.required(join(&at, "expression"), "");
        } else if let Err(why) = compiler.match_condition(expression) {
            errors.invalid(join(&at, "expression"), expression, why);
        }
        let name = text(condition, "name");
        if errors.need(condition, &at, "name") {
            errors.complain(&join(&at, "name"), name, syntax::qualified_name(name));
            if !seen.insert(name) {
                errors.duplicate(join(&at, "name"), name);
            }
        }
    }
}

fn variable(variable: &Value, path: &str, compiler: &mut Compiler, errors: &mut Errors) {
    let (name, expression) = (text(variable, "name"), text(variable, "expression"));
    if name.trim().is_empty() {
        errors.required(join(path, "name"), "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(join(path, "name"), name, "must be a valid CEL identifier");
    }
    if expression.trim().is_empty() {
        errors.required(join(path, "expression"), "expression is not specified");
    } else if let Err(why) = compiler.variable(name, expression) {
        errors.invalid(join(path, "expression"), expression, why);
    }
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !crate::schema::is_reserved(name)
}

fn validation(rule: &Value, path: &str, compiler: &Compiler, errors: &mut Errors) {
    let expression = text(rule, "expression");
    if expression.trim().is_empty() {
        errors.required(join(path, "expression"), "expression is not specified");
    } else if let Err(why) = compiler.validation(expression) {
        errors.invalid(join(path, "expression"), expression, why);
    }
    let message = text(rule, "messageExpression");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(join(path, "messageExpression"), message, "must be non-empty if specified");
    } else if !message.is_empty()
        && let Err(why) = compiler.message(message)
    {
        errors.invalid(join(path, "messageExpression"), message, why);
    }
    let message = text(rule, "message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(join(path, "message"), message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(join(path, "message"), message, "must not contain line breaks");
    }
    if is_set(rule, "reason") {
        let known = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        if !known.contains(&text(rule, "reason")) {
            errors.push(FieldError::not_supported(join(path, "reason"), &rule["reason"], &known));
        }
    }
}

fn audit_annotations(policy: &Value, compiler: &Compiler, errors: &mut Errors) {
    let path = "spec.auditAnnotations";
    let annotations = items(&policy["spec"], "auditAnnotations");
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.invalid(path, policy["spec"]["auditAnnotations"].clone(), why);
    }
    let mut seen = BTreeSet::new();
    for (i, annotation) in annotations.iter().enumerate() {
        let at = format!("{path}[{i}]");
        let (at_key, key) = (join(&at, "key"), text(annotation, "key"));
        match object::name(policy) {
            "" => errors.invalid(at_key.clone(), key, "requires metadata.name be non-empty"),
            name => {
                let whole = format!("{name}/{key}");
                errors.complain(&at_key, whole.as_str(), syntax::qualified_name(&whole));
            }
        }
        let at_value = join(&at, "valueExpression");
        let expression = text(annotation, "valueExpression");
        match expression.trim() {
            "" => errors.required(at_value, "valueExpression is not specified"),
            long if long.len() > MAX_AUDIT_EXPRESSION => {
                errors.required(at_value, &format!("must not exceed {MAX_AUDIT_EXPRESSION} bytes in length"));
            }
            trimmed => {
                if let Err(why) = compiler.audit_annotation(trimmed) {
                    errors.invalid(at_value, expression, why);
                }
            }
        }
        if !seen.insert(key) {
            errors.duplicate(at_key, key);
        }
    }
}

fn param_ref(params: &Value, path: &str, errors: &mut Errors) {
    let name = text(params, "name");
    let has_selector = is_set(params, "selector");
    let both = "name and selector are mutually exclusive";
    if !name.is_empty() {
        errors.complain(&join(path, "name"), name, syntax::path_segment(name));
        if has_selector {
            errors.forbidden(join(path, "name"), both);
        }
    }
    if has_selector {
        errors.selector(&params["selector"], &join(path, "selector"));
        if !name.is_empty() {
            errors.forbidden(join(path, "selector"), both);
        }
    }
    if name.is_empty() && !has_selector {
        errors.required(path, "one of name or selector must be specified");
    }
    errors.one_of(params, path, "parameterNotFoundAction", &["Deny", "Allow"], true);
}

fn validation_actions(spec: &Value, errors: &mut Errors) {
    let path = "spec.validationActions";
    let known = ["Audit", "Deny", "Warn"];
    let actions = texts(spec, "validationActions");
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        if !known.contains(action) {
            errors.push(FieldError::not_supported(format!("{path}[{i}]"), &(*action).into(), &known));
        }
        if !seen.insert(*action) {
            errors.duplicate(format!("{path}[{i}]"), *action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                   API response and headers serves no purpose)";
        errors.invalid(path, spec["validationActions"].clone(), why);
    }
    if actions.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
}
