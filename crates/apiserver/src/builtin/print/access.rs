//! Rows of roles, their bindings and CRDs.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, age, col, name, wide};
use crate::builtin::json::{items, text};
use crate::object::meta;
use crate::resource::ColumnDef;

pub(crate) const CREATED: &[ColumnDef] = &[NAME, col("Created At", "date", "When the object was created.")];

/// Roles and CRDs show their creation as a time, not as an age.
pub(crate) fn created(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![name(object), meta(object, "creationTimestamp").into()]
}

pub(crate) const BINDING: &[ColumnDef] = &[
    NAME,
    col("Role", "string", "The role that is granted."),
    AGE,
    wide("Users", "Users who have the role by this binding."),
    wide("Groups", "Groups who have the role by this binding."),
    wide("ServiceAccounts", "ServiceAccounts that have the role by this binding."),
];

pub(crate) fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = &object["roleRef"];
    let subjects = |kind: &str| -> Value {
        items(object, "subjects")
            .iter()
            .filter(|s| text(s, "kind") == kind)
            .map(|s| match kind {
                "ServiceAccount" => format!("{}/{}", text(s, "namespace"), text(s, "name")),
                _ => text(s, "name").to_owned(),
            })
            .collect::<Vec<_>>()
            .join(", ")
            .into()
    };
    vec![
        name(object),
        format!("{}/{}", text(role, "kind"), text(role, "name")).into(),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
