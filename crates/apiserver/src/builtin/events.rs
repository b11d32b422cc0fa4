//! Events of both groups: one collection, kept in the core form and converted for `events.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use super::check::Errors;
use super::json::{fill, is_set, text};
use super::kind::Kind;
use super::print;
use super::syntax;
use crate::error::FieldError;
use crate::object;
use crate::resource::{Resource, Strategy};

const REFERENCE: [&str; 7] =
    ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

/// Field names in the core group and in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn kinds() -> Vec<Resource> {
    let fields = |reference: &str, others: &[&str]| -> Vec<String> {
        let of_reference = REFERENCE.map(|f| format!("{reference}.{f}"));
        of_reference.into_iter().chain(others.iter().map(|&o| o.to_owned())).collect()
    };
    let mut core = Kind::new("", "v1", "Event", "events")
        .short(&["ev"])
        .columns(print::EVENT, print::core_event)
        .strategy(CoreEvent)
        .build();
    core.selectable_fields = fields("involvedObject", &["reason", "reportingComponent", "source", "type"]);
    let mut group = Kind::new("events.k8s.io", "v1", "Event", "events")
        .short(&["ev"])
        .stored_in("", "v1")
        .columns(print::EVENT, group_row)
        .strategy(GroupEvent)
        .build();
    group.selectable_fields = fields("regarding", &["reason", "reportingController", "type"]);
    vec![core, group]
}

fn group_row(event: &Value, now: Timestamp) -> Vec<Value> {
    print::core_event(&as_core(event), now)
}

struct CoreEvent;

impl Strategy for CoreEvent {
    fn default(&self, event: &mut Value) {
        for field in ["reportingComponent", "reportingInstance"] {
            fill(event, field, "");
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        validate(new, "reportingComponent", &mut errors);
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

struct GroupEvent;

impl Strategy for GroupEvent {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        validate(&as_core(new), "reportingController", &mut errors);
        match old {
            None => {
                if !is_set(new, "eventTime") {
                    errors.required("eventTime", "");
                }
                if !matches!(text(new, "type"), "Normal" | "Warning") {
                    errors.invalid("type", "", format!("has invalid value: {}", text(new, "type")));
                }
                for (core, group) in &RENAMED[2..6] {
                    if is_set(new, group) {
                        errors.invalid(*core, "", "needs to be unset");
                    }
                }
            }
            Some(old) => {
                for (core, group) in RENAMED {
                    if new[group] != old[group] {
                        errors.invalid(core, new[group].clone(), super::check::IMMUTABLE);
                    }
                }
                for field in ["reason", "type", "eventTime", "action", "related", "reportingInstance"] {
                    errors.unchanged(new, old, "", field);
                }
            }
        }
        let series = &new["series"];
        if series.is_object() && old.is_none_or(|old| old["series"] != *series) {
            if series["count"].as_i64().unwrap_or_default() < 2 {
                errors.invalid("series.count", "", "should be at least 2");
            }
            if !is_set(series, "lastObservedTime") {
                errors.required("series.lastObservedTime", "");
            }
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn convert_from_storage(&self, event: &mut Value) {
        for (core, group) in RENAMED {
            rename(event, core, group);
        }
        event["apiVersion"] = "events.k8s.io/v1".into();
    }

    fn convert_to_storage(&self, event: &mut Value) {
        for (core, group) in RENAMED {
            rename(event, group, core);
        }
        event["apiVersion"] = "v1".into();
        fill(event, "involvedObject", serde_json::json!({}));
        for field in ["reportingComponent", "reportingInstance"] {
            fill(event, field, "");
        }
    }
}

fn as_core(event: &Value) -> Value {
    let mut event = event.clone();
    GroupEvent.convert_to_storage(&mut event);
    event
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(map) = object.as_object_mut()
        && let Some(value) = map.remove(from)
    {
        map.insert(to.to_owned(), value);
    }
}

/// The rules of both groups, on the core form. `reporter` is what the caller's group calls the reporting component.
fn validate(event: &Value, reporter: &str, errors: &mut Errors) {
    let (own, target) = (object::namespace(event), text(&event["involvedObject"], "namespace"));
    let mismatch = if is_set(event, "eventTime") {
        target.is_empty() && !matches!(own, "default" | "kube-system")
    } else if target.is_empty() {
        !matches!(own, "" | "default")
    } else {
        own != target
    };
    if mismatch {
        errors.invalid("involvedObject.namespace", target, "does not match event.namespace");
    }
    if !is_set(event, "eventTime") {
        return;
    }
    let component = text(event, "reportingComponent");
    if component.is_empty() {
        errors.required(reporter, "");
    }
    errors.complain(reporter, component, syntax::qualified_name(component));
    for (field, max) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        errors.need(event, "", field);
        if text(event, field).len() > max {
            errors.invalid(field, "", format!("can have at most {max} characters"));
        }
    }
    if text(event, "message").len() > 1024 {
        errors.invalid("message", "", "can have at most 1024 characters");
    }
}

#[cfg(test)]
mod tests;
