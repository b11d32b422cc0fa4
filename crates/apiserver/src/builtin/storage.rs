//! PersistentVolumeClaims.

use serde_json::{Value, json};

use super::check::Errors;
use super::json::{child, fill, fill_empty, made, text, texts};
use super::kind::Kind;
use super::print;
use super::quantity;
use super::syntax;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            .short(&["pvc"])
            .status()
            .columns(print::CLAIM, print::claim)
            .strategy(Claim)
            .build(),
    ]
}

/// Defaults of a claim, also as a StatefulSet's template.
pub(super) fn claim_defaults(claim: &mut Value) {
    if let Some(spec) = child(claim, "spec") {
        fill(spec, "volumeMode", "Filesystem");
        if let Some(resources) = child(spec, "resources") {
            for list in ["limits", "requests"] {
                child(resources, list).into_iter().for_each(quantity::canonicalize);
            }
        }
    }
    if let Some(status) = made(claim, "status") {
        fill_empty(status, "phase", "Pending");
    }
}

struct Claim;

impl Strategy for Claim {
    fn default(&self, claim: &mut Value) {
        claim_defaults(claim);
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        validate(&new["spec"], &mut errors);
        if let Some(old) = old {
            update(new, old, &mut errors);
        }
        errors.into_vec()
    }

    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        if old.is_none() {
            new["status"] = json!({"phase": "Pending"});
        }
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn validate(spec: &Value, errors: &mut Errors) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let modes = texts(spec, "accessModes");
    if modes.is_empty() {
        errors.required("spec.accessModes", "at least 1 access mode is required");
    }
    for mode in modes.iter().filter(|m| !MODES.contains(m)) {
        errors.push(FieldError::not_supported("spec.accessModes", &(*mode).into(), &MODES));
    }
    if modes.contains(&"ReadWriteOncePod") && modes.len() > 1 {
        errors.forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes");
    }
    errors.selector(&spec["selector"], "spec.selector");
    let (size, path) = (&spec["resources"]["requests"]["storage"], "spec.resources[storage]");
    match quantity::of(size) {
        _ if size.is_null() => errors.required(path, ""),
        None => errors.invalid(path, size.clone(), quantity::COMPLAINT),
        Some(amount) if amount.is_zero() || amount.is_negative() => {
            errors.invalid(path, size.clone(), "must be greater than zero");
        }
        Some(_) => {}
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.complain("spec.storageClassName", class, syntax::subdomain(class));
    }
    errors.one_of(spec, "spec", "volumeMode", &["Block", "Filesystem"], false);
}

fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let (mut now, mut before) = (new["spec"].clone(), old["spec"].clone());
    let size = |spec: &Value| spec["resources"]["requests"]["storage"].clone();
    let (new_size, old_size) = (size(&now), size(&before));
    if text(&old["spec"], "volumeName").is_empty() {
        // A claim is bound once.
        for spec in [&mut now, &mut before] {
            spec.as_object_mut().map(|s| s.remove("volumeName"));
        }
    }
    if text(&old["status"], "phase") == "Bound" {
        for spec in [&mut now, &mut before] {
            spec["resources"]["requests"]["storage"] = Value::Null;
            spec["volumeAttributesClassName"] = Value::Null;
        }
    }
    if now != before {
        errors.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
             claims\n",
        );
    }
    if let (Some(new), Some(old)) = (quantity::of(&new_size), quantity::of(&old_size))
        && new < old
    {
        let detail = "field can not be less than previous value";
        errors.forbidden("spec.resources.requests.storage", detail);
    }
}
