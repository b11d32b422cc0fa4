//! The annotation in which client-side `kubectl apply` keeps what it applied. When the same user moves on to
//! server-side apply, the fields it names may be taken without force, and it is kept up to date for the way back.

use serde_json::Value;

use super::fields::Set;
use super::managed::Manager;
use super::typed::Position;
use super::typed::compare::{claimed, compare};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together may not be larger.
const MAX_ANNOTATIONS: usize = 256 << 10;

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}

/// The fields that `kubectl` applied from the client's side and that still are as it left them.
pub(super) fn allowed(live: &Value, place: Position<'_>, manager: &Manager<'_>) -> Option<Set> {
    if manager.name != "kubectl" {
        return None;
    }
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last["apiVersion"].as_str() != Some(manager.api_version) {
        return None;
    }
    let mut fields = claimed(&last, place);
    let diff = compare(&last, live, place);
    fields.subtract(&diff.changed);
    fields.subtract(&diff.removed);
    Some(fields)
}

/// Writes what `kubectl` applies from the server's side into the annotation, where there is one.
pub(super) fn refresh(object: &mut Value, applied: &Value, manager: &Manager<'_>) {
    if manager.name != "kubectl" || annotation(object).is_none() {
        return;
    }
    let mut document = applied.clone();
    if let Some(annotations) = document.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| key != ANNOTATION);
    }
    document.sort_all_objects();
    let text = format!("{document}\n");
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    let others: usize =
        annotations.iter().filter(|(k, _)| *k != ANNOTATION).map(|(k, v)| k.len() + length(v)).sum();
    if others + ANNOTATION.len() + text.len() > MAX_ANNOTATIONS {
        annotations.retain(|key, _| key != ANNOTATION);
    } else {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}

fn length(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}
