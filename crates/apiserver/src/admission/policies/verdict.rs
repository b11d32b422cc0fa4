//! What policies say to a request, and how the client is told.

use super::attempt::Attempt;
use crate::error::{ApiError, Cause, Reason};
use crate::object;

/// What has been said so far.
#[derive(Default)]
pub(super) struct Verdict {
    pub denials: Vec<Denial>,
    pub warnings: Vec<String>,
}

/// One reason to refuse; the client is told the first.
pub(super) struct Denial {
    pub policy: String,
    /// None if the policy itself is at fault.
    pub binding: Option<String>,
    pub message: String,
    pub reason: Option<String>,
}

impl Denial {
    pub(super) fn into_error(self, attempt: &Attempt<'_>) -> ApiError {
        let Self { policy, binding, message, reason } = self;
        let message = match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
            ),
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
        };
        let (group, plural) = (&attempt.resource.group, &attempt.resource.plural);
        let object = attempt.object.as_deref();
        let names = [
            attempt.name,
            object.map_or("", object::name),
            object.map_or("", |object| object::meta(object, "generateName")),
            "Unknown",
        ];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let text = format!("{} {name:?} is forbidden: {message}", crate::error::qualified(group, plural));
        let mut error = ApiError::forbidden(group, plural, name, text);
        (error.code, error.reason) = match reason.as_deref() {
            Some("Forbidden") => (403, Reason::Forbidden),
            Some("Unauthorized") => (401, Reason::Unauthorized),
            Some("RequestEntityTooLarge") => (413, Reason::RequestEntityTooLarge),
            _ => (422, Reason::Invalid),
        };
        if let Some(details) = &mut error.details {
            details.causes.push(Cause { reason: String::new(), message, field: String::new() });
        }
        error
    }
}
