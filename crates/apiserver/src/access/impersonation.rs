//! Acting as someone else: the `Impersonate-*` headers behind `kubectl --as`, each checked with the verb
//! `impersonate` against the caller's own rights.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::{ANONYMOUS, AUTHENTICATED, Access, Attributes, UNAUTHENTICATED, User, service_account_groups};
use crate::error::ApiError;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user to act as: the caller, or whom the headers name if the caller may.
pub(super) fn apply(access: &Access, caller: User, headers: &HeaderMap) -> Result<User, ApiError> {
    let name = text(headers, USER)?;
    let groups = texts(headers, GROUP)?;
    let uid = text(headers, UID)?;
    let extra = extra(headers)?;
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(caller);
        }
        return Err(ApiError::bad_request(
            "requested groups, uid or extra without impersonating a user: set Impersonate-User too",
        ));
    }

    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let verb = "impersonate";
        let path = None;
        let attributes = Attributes { verb, group, resource, subresource, namespace, name, path };
        access.authorize(&caller, &attributes)
    };
    let account = split_service_account(&name);
    match account {
        Some((namespace, account)) => check("", "serviceaccounts", "", namespace, account)?,
        None => check("", "users", "", "", &name)?,
    }
    for group in &groups {
        check("", "groups", "", "", group)?;
    }
    if !uid.is_empty() {
        check(AUTHENTICATION, "uids", "", "", &uid)?;
    }
    for (key, values) in &extra {
        for value in values {
            check(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }

    let mut groups = match account {
        Some((namespace, _)) if groups.is_empty() => service_account_groups(namespace),
        _ => groups,
    };
    // An impersonated user counts as authenticated, unless it is the anonymous one or the headers say otherwise.
    if !groups.iter().any(|g| g == AUTHENTICATED || g == UNAUTHENTICATED) {
        let implied = if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        groups.push(implied.to_owned());
    }
    Ok(User { name, uid, groups, extra })
}

/// Namespace and name of `system:serviceaccount:NAMESPACE:NAME`.
fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

fn text(headers: &HeaderMap, name: &str) -> Result<String, ApiError> {
    Ok(texts(headers, name)?.into_iter().next().unwrap_or_default())
}

fn texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, ApiError> {
    headers.get_all(name).iter().map(|value| utf8(name, value.as_bytes())).collect()
}

fn extra(headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, ApiError> {
    let mut extra = BTreeMap::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else {
            continue;
        };
        extra.insert(percent_decode(key), texts(headers, name.as_str())?);
    }
    Ok(extra)
}

fn utf8(name: &str, value: &[u8]) -> Result<String, ApiError> {
    String::from_utf8(value.to_vec())
        .map_err(|_| ApiError::bad_request(format!("header {name} is not valid UTF-8")))
}

/// Keys with characters that a header name can't have come percent-encoded; one that does not decode is taken as
/// it is.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let decoded =
            tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        let Some(byte) = decoded else {
            return text.to_owned();
        };
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
