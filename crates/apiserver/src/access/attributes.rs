//! What a request wants to do, as RBAC sees it, and how a refusal is worded.

use super::User;
use crate::error::{ApiError, Reason, qualified};

/// A request to be allowed or refused. Empty strings stand for what a request does not have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Set for a request that is not about a resource (`/metrics`); then only the verb counts beside it.
    pub path: Option<&'a str>,
}

/// An answer, with the binding that gave it or what went wrong on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub allowed: bool,
    pub reason: String,
}

pub(super) fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let mut why = describe(user, attributes);
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    if attributes.path.is_some() {
        let mut error = ApiError::new(403, Reason::Forbidden, format!("forbidden: {why}"));
        error.details = Some(crate::error::Details::default());
        return error;
    }
    refused(attributes.group, attributes.resource, attributes.name, &why)
}

/// The 403 of a named resource: `why` follows Kubernetes' opening words.
pub(super) fn refused(group: &str, resource: &str, name: &str, why: &str) -> ApiError {
    let resource_name = qualified(group, resource);
    let message = if name.is_empty() {
        format!("{resource_name} is forbidden: {why}")
    } else {
        format!("{resource_name} \"{name}\" is forbidden: {why}")
    };
    ApiError::forbidden(group, resource, name, message)
}

fn describe(user: &User, a: &Attributes<'_>) -> String {
    let text = if let Some(path) = a.path {
        format!("User {:?} cannot {} path {path:?}", user.name, a.verb)
    } else {
        let resource = if a.subresource.is_empty() {
            a.resource.to_owned()
        } else {
            format!("{}/{}", a.resource, a.subresource)
        };
        let place = if a.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", a.namespace)
        };
        format!(
            "User {:?} cannot {} resource {resource:?} in API group {:?} {place}",
            user.name, a.verb, a.group
        )
    };
    // Parts of this come from the request; a browser that shows it must not run it.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
