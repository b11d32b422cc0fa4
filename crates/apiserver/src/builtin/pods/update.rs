//! What may change in a pod that exists: little more than its images.

use serde_json::Value;

use crate::builtin::check::Errors;
use crate::builtin::json::{int, is_set, items, text};
use crate::builtin::syntax;

const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                       `spec.tolerations` (only additions to existing tolerations),\
                       `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        if items(new, list).len() != items(old, list).len() {
            errors.forbidden(format!("spec.{list}"), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(new, old, errors);
    if items(old, "tolerations").iter().any(|t| !items(new, "tolerations").contains(t)) {
        errors.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    let gates = |spec| items(spec, "schedulingGates").iter().map(|g| text(g, "name")).collect::<Vec<_>>();
    for gate in gates(new).iter().filter(|g| !gates(old).contains(g)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        errors.forbidden("spec.schedulingGates", detail);
    }
    if masked(new, old) != *old {
        errors.forbidden("spec", format!("pod updates may not change fields other than {MUTABLE}\n"));
    }
}

fn deadline(new: &Value, old: &Value, errors: &mut Errors) {
    let path = "spec.activeDeadlineSeconds";
    match (int(new, "activeDeadlineSeconds"), int(old, "activeDeadlineSeconds")) {
        (None, Some(_)) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value");
        }
        (Some(new), Some(old)) if new > old => {
            errors.invalid(path, new, "must be less than or equal to previous value");
        }
        (Some(new), _) => errors.complain(path, new, syntax::between(new, 0, i64::from(i32::MAX))),
        _ => {}
    }
}

/// `new` with the fields that may change put back, so that what differs from `old` may not.
fn masked(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for list in ["containers", "initContainers"] {
        for (i, before) in items(old, list).iter().enumerate() {
            put_back(&mut spec[list][i], before, "image");
        }
    }
    let mut fields = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if !items(old, "schedulingGates").is_empty() {
        fields.extend(["nodeSelector", "affinity"]);
    }
    // There is no separate binding request: the local node takes a pod by writing its name here.
    if text(old, "nodeName").is_empty() {
        fields.push("nodeName");
    }
    if int(old, "terminationGracePeriodSeconds").is_some_and(|s| s < 0)
        && int(new, "terminationGracePeriodSeconds") == Some(1)
    {
        fields.push("terminationGracePeriodSeconds");
    }
    for field in fields {
        put_back(&mut spec, old, field);
    }
    spec
}

fn put_back(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = new.as_object_mut() else { return };
    if is_set(old, field) {
        map.insert(field.to_owned(), old[field].clone());
    } else {
        map.remove(field);
    }
}
