//! One wrong field: its path, what is wrong, in the words Kubernetes uses.

use std::fmt;

/// A single validation failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    /// Dotted path from the object's root: `spec.backends[1].port`.
    pub path: String,
    /// The offending value as JSON text, where Kubernetes shows it.
    pub value: Option<String>,
    /// What is expected instead.
    pub detail: String,
}

/// The closed set of causes a `Status` may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    Duplicate,
    Forbidden,
    Invalid,
    NotFound,
    NotSupported,
    Required,
    TooLong,
    TooMany,
    TypeInvalid,
}

impl FieldErrorKind {
    /// The `reason` of the cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Required => "FieldValueRequired",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotFound => "Not found",
            Self::NotSupported => "Unsupported value",
            Self::Required => "Required value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

impl FieldError {
    pub fn new(kind: FieldErrorKind, path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, path: path.into(), value: None, detail: detail.into() }
    }

    /// Shows the offending value, as Kubernetes does for most kinds of error.
    #[must_use]
    pub fn with_value(mut self, value: &serde_json::Value) -> Self {
        self.value = Some(value.to_string());
        self
    }

    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, detail)
    }

    pub fn invalid(path: impl Into<String>, value: &serde_json::Value, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, detail).with_value(value)
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, detail)
    }

    pub fn duplicate(path: impl Into<String>, value: &serde_json::Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, "").with_value(value)
    }

    /// `allowed` is shown as a quoted list.
    pub fn not_supported(path: impl Into<String>, value: &serde_json::Value, allowed: &[&str]) -> Self {
        let list = allowed.iter().map(|a| format!("\"{a}\"")).collect::<Vec<_>>().join(", ");
        Self::new(FieldErrorKind::NotSupported, path, format!("supported values: {list}")).with_value(value)
    }

    /// The path as a `Status` names it; the object as a whole has Kubernetes' word for none.
    pub fn place(&self) -> &str {
        if self.path.is_empty() { "<nil>" } else { &self.path }
    }

    /// The text after the path.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.body())
    }
}
