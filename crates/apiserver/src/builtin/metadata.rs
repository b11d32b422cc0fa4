//! The rules that every object's `metadata` obeys, whatever its kind.

use serde_json::Value;

use super::check::{Errors, IMMUTABLE, join};
use super::json::{entries, flag, items, text};
use super::syntax::{self, NameRule};
use crate::error::FieldError;
use crate::object;
use crate::resource::Resource;

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// Those that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Checks `metadata` of a new object, or of one that replaces `old`. A `generateName` must have been turned into a
/// name before.
pub(crate) fn validate_metadata(object: &Value, resource: &Resource, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    match old {
        None => names(object, resource, &mut errors),
        Some(old) => immutables(object, old, &mut errors),
    }
    let meta = &object["metadata"];
    errors.labels(meta, "metadata", "labels");
    annotations(meta, "metadata", &mut errors);
    owners(meta, &mut errors);
    finalizers(object, resource, old, &mut errors);
    errors.into_vec()
}

/// Keys and total size of annotations; also for pod templates.
pub(super) fn annotations(meta: &Value, path: &str, errors: &mut Errors) {
    let path = join(path, "annotations");
    let mut size = 0;
    for (key, value) in entries(meta, "annotations") {
        size += key.len() + value.as_str().unwrap_or_default().len();
        // Only the case of a key is free.
        errors.complain(&path, key.clone(), syntax::qualified_name(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_LIMIT {
        errors.too_long(path, ANNOTATIONS_LIMIT);
    }
}

/// How objects of a resource may be named.
pub(super) fn name_rule(group: &str, plural: &str) -> NameRule {
    match (group, plural) {
        ("rbac.authorization.k8s.io", "roles" | "clusterroles" | "rolebindings" | "clusterrolebindings") => {
            NameRule::PathSegment
        }
        ("", "namespaces") | ("apps", "statefulsets") => NameRule::Label,
        ("", "services") => NameRule::Dns1035Label,
        _ => NameRule::Subdomain,
    }
}

fn names(object: &Value, resource: &Resource, errors: &mut Errors) {
    let rule = name_rule(&resource.group, &resource.plural);
    let prefix = object::meta(object, "generateName");
    if !prefix.is_empty() {
        errors.complain("metadata.generateName", prefix, rule.check_prefix(prefix));
    }
    match object::name(object) {
        "" if prefix.is_empty() => errors.required("metadata.name", "name or generateName is required"),
        // Generated when the object is stored.
        "" => {}
        name => errors.complain("metadata.name", name, rule.check(name)),
    }
    match (resource.namespaced, object::namespace(object)) {
        (true, "") => errors.required("metadata.namespace", ""),
        (true, namespace) => errors.complain("metadata.namespace", namespace, syntax::label(namespace)),
        (false, "") => {}
        (false, _) => errors.forbidden("metadata.namespace", "not allowed on this type"),
    }
}

/// What identifies an object stays; left out means unchanged.
fn immutables(object: &Value, old: &Value, errors: &mut Errors) {
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        let (new, old) = (&object["metadata"][field], &old["metadata"][field]);
        if !new.is_null() && new.as_str() != Some("") && new != old {
            errors.invalid(join("metadata", field), new.clone(), IMMUTABLE);
        }
    }
}

fn owners(meta: &Value, errors: &mut Errors) {
    let path = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for (i, owner) in items(meta, "ownerReferences").iter().enumerate() {
        let at = format!("{path}[{i}]");
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                errors.invalid(join(path, field), "", "must not be empty");
            }
        }
        let version = text(owner, "apiVersion");
        if version.split('/').count() > 2 || version.ends_with('/') {
            errors.invalid(join(&at, "apiVersion"), version, "must be <group>/<version> or <version>");
        }
        if version == "v1" && text(owner, "kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(at, owner.clone(), detail);
        }
        if flag(owner, "controller") {
            let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => errors.invalid(
                    path,
                    meta["ownerReferences"].clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for \
                         {first} and {name}"
                    ),
                ),
            }
        }
    }
}

fn finalizers(object: &Value, resource: &Resource, old: Option<&Value>, errors: &mut Errors) {
    let path = "metadata.finalizers";
    let finalizers = object::finalizers(object);
    // Definitions, and objects of the kinds they define, may carry any.
    let any = resource.is_custom() || resource.group == "apiextensions.k8s.io";
    for (i, &finalizer) in finalizers.iter().enumerate() {
        let complaints = syntax::qualified_name(finalizer);
        let known = any || finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer);
        if complaints.is_empty() && !known {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(format!("{path}[{i}]"), finalizer, detail);
        }
        errors.complain(path, finalizer, complaints);
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        errors.invalid(
            path,
            object["metadata"]["finalizers"].clone(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
    if let Some(old) = old.filter(|old| object::is_terminating(old)) {
        let before = object::finalizers(old);
        let added: Vec<_> =
            finalizers.iter().filter(|f| !before.contains(f)).map(|f| format!("\"{f}\"")).collect();
        if !added.is_empty() {
            errors.forbidden(
                path,
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests;
