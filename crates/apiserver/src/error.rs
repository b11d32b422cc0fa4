//! What a request can end with when it does not succeed: a Kubernetes `Status` with the reason, code and
//! field causes that standard clients act on.

mod field;

pub(crate) use field::{FieldError, FieldErrorKind};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// A failed request, as the client will see it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub code: u16,
    pub reason: Reason,
    pub message: String,
    pub details: Option<Details>,
}

/// The machine-readable `reason` of a `Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Reason {
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    NotImplemented,
    RequestEntityTooLarge,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    /// Not said.
    Unknown,
}

/// Which object a `Status` speaks of, and the fields at fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One field, or one conflicting manager, that is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// Group and plural, the way Kubernetes names a resource in its messages: `deployments.apps`.
pub(crate) fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

impl ApiError {
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, group: &str, plural: &str, name: &str) -> Self {
        let details = self.details.get_or_insert_with(Details::default);
        group.clone_into(&mut details.group);
        plural.clone_into(&mut details.kind);
        name.clone_into(&mut details.name);
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    /// `message` is the whole text: who may not do what, where.
    pub fn forbidden(group: &str, plural: &str, name: &str, message: impl Into<String>) -> Self {
        Self::new(403, Reason::Forbidden, message).about(group, plural, name)
    }

    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(group, plural));
        Self::new(404, Reason::NotFound, message).about(group, plural, name)
    }

    /// The path itself names nothing that is served.
    pub fn no_such_path() -> Self {
        let mut error = Self::new(404, Reason::NotFound, "the server could not find the requested resource");
        error.details = Some(Details::default());
        error
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(405, Reason::MethodNotAllowed, message);
        error.details = Some(Details::default());
        error
    }

    /// The client takes none of the forms that there are.
    pub fn not_acceptable() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let mut error = Self::new(406, Reason::NotAcceptable, message);
        error.details = Some(Details::default());
        error
    }

    /// A revision that nothing has reached yet: the client has seen another server's.
    pub fn revision_to_come(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut error = Self::new(504, Reason::Timeout, message);
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        error.details =
            Some(Details { causes: vec![cause], retry_after_seconds: Some(1), ..Details::default() });
        error
    }

    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(group, plural));
        Self::new(409, Reason::AlreadyExists, message).about(group, plural, name)
    }

    /// `why` follows Kubernetes' fixed opening words.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, plural));
        Self::new(409, Reason::Conflict, message).about(group, plural, name)
    }

    /// The object was changed since the caller read it.
    pub fn modified(group: &str, plural: &str, name: &str) -> Self {
        Self::conflict(
            group,
            plural,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A watch or continue token asks for history that has been compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, Reason::UnsupportedMediaType, message)
    }

    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let text = match errors {
            [one] => one.to_string(),
            many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        let mut error = Self::new(422, Reason::Invalid, format!("{qualified} \"{name}\" is invalid: {text}"))
            .about(group, kind, name);
        if let Some(details) = &mut error.details {
            details.causes = errors
                .iter()
                .map(|e| Cause {
                    reason: e.kind.reason().to_owned(),
                    message: e.body(),
                    field: e.place().to_owned(),
                })
                .collect();
        }
        error
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, Reason::InternalError, format!("Internal error occurred: {}", message.into()))
    }

    /// The `Status` object itself.
    pub fn to_json(&self) -> serde_json::Value {
        let mut status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if self.reason != Reason::Unknown {
            status["reason"] = serde_json::json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = serde_json::json!(details);
        }
        status
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry = self.details.as_ref().and_then(|d| d.retry_after_seconds);
        let mut response = (code, self.to_json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
