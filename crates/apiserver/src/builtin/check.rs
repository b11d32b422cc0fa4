//! Collects the errors of one object: small checks that name the field they looked at.

use serde_json::Value;

use super::json::{entries, int, is_set, items, text};
use super::syntax::{self, Complaints};
use crate::error::{FieldError, FieldErrorKind};

pub(super) const IMMUTABLE: &str = "field is immutable";

/// The errors found so far.
#[derive(Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    pub(super) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    pub(super) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    pub(super) fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.push(FieldError::required(path, detail));
    }

    pub(super) fn invalid(
        &mut self,
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.push(FieldError::invalid(path, &value.into(), detail));
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(path, detail));
    }

    pub(super) fn duplicate(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(path, &value.into()));
    }

    pub(super) fn too_long(&mut self, path: impl Into<String>, max: usize) {
        self.push(FieldError::new(
            FieldErrorKind::TooLong,
            path,
            format!("may not be more than {max} bytes"),
        ));
    }

    /// One error for each complaint about a value.
    pub(super) fn complain(&mut self, path: &str, value: impl Into<Value>, complaints: Complaints) {
        if complaints.is_empty() {
            return;
        }
        let value = value.into();
        for complaint in complaints {
            self.push(FieldError::invalid(path, &value, complaint));
        }
    }

    /// The field must be present and not empty.
    pub(super) fn need(&mut self, object: &Value, path: &str, key: &str) -> bool {
        let missing = match &object[key] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if missing {
            self.required(join(path, key), "");
        }
        !missing
    }

    /// The text must be one of `allowed`; absent is an error only if `needed`.
    pub(super) fn one_of(&mut self, object: &Value, path: &str, key: &str, allowed: &[&str], needed: bool) {
        match text(object, key) {
            "" if needed => self.required(join(path, key), ""),
            "" => {}
            value if allowed.contains(&value) => {}
            value => self.push(FieldError::not_supported(join(path, key), &value.into(), allowed)),
        }
    }

    /// The number, if present, must not be negative.
    pub(super) fn not_negative(&mut self, object: &Value, path: &str, key: &str) {
        if let Some(number) = int(object, key).filter(|&n| n < 0) {
            self.invalid(join(path, key), number, "must be greater than or equal to 0");
        }
    }

    /// The number, if present, must be above zero.
    pub(super) fn positive(&mut self, object: &Value, path: &str, key: &str) {
        if let Some(number) = int(object, key).filter(|&n| n <= 0) {
            self.invalid(join(path, key), number, "must be greater than 0");
        }
    }

    /// The field must be as it was.
    pub(super) fn unchanged(&mut self, new: &Value, old: &Value, path: &str, key: &str) {
        if new[key] != old[key] {
            self.invalid(join(path, key), new[key].clone(), IMMUTABLE);
        }
    }

    /// A port by number or by the name a container gives it.
    pub(super) fn port_or_name(&mut self, object: &Value, path: &str, key: &str) {
        let path = join(path, key);
        match &object[key] {
            Value::String(name) => self.complain(&path, name.clone(), syntax::port_name(name)),
            other => {
                let port = other.as_i64().unwrap_or_default();
                self.complain(&path, port, syntax::port_number(port));
            }
        }
    }

    /// A map of labels, as on objects or as an equality selector.
    pub(super) fn labels(&mut self, object: &Value, path: &str, key: &str) {
        let path = join(path, key);
        for (key, value) in entries(object, key) {
            self.complain(&path, key.clone(), syntax::qualified_name(key));
            let value = value.as_str().unwrap_or_default();
            self.complain(&path, value, syntax::label_value(value));
        }
    }

    /// A label selector with `matchLabels` and `matchExpressions`.
    pub(super) fn selector(&mut self, selector: &Value, path: &str) {
        self.labels(selector, path, "matchLabels");
        for (i, rule) in items(selector, "matchExpressions").iter().enumerate() {
            let path = format!("{path}.matchExpressions[{i}]");
            let values = items(rule, "values");
            match text(rule, "operator") {
                "In" | "NotIn" if values.is_empty() => self
                    .required(join(&path, "values"), "must be specified when `operator` is 'In' or 'NotIn'"),
                "Exists" | "DoesNotExist" if !values.is_empty() => self.forbidden(
                    join(&path, "values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                other => self.invalid(join(&path, "operator"), other, "not a valid selector operator"),
            }
            let key = text(rule, "key");
            self.complain(&join(&path, "key"), key, syntax::qualified_name(key));
            for (j, value) in values.iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                self.complain(&format!("{path}.values[{j}]"), value, syntax::label_value(value));
            }
        }
    }
}

/// `path.key`, or `key` at the root.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Whether a label selector picks an object with these labels. An absent selector picks nothing.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    entries(selector, "matchLabels").all(|(k, v)| labels[k.as_str()] == *v)
        && items(selector, "matchExpressions").iter().all(|rule| {
            let value = &labels[text(rule, "key")];
            let listed = items(rule, "values").contains(value);
            match text(rule, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => is_set(labels, text(rule, "key")),
                "DoesNotExist" => !is_set(labels, text(rule, "key")),
                _ => false,
            }
        })
}
