//! Events of both groups: one collection, kept in the core form.

use jiff::Timestamp;
use serde_json::Value;

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

const REFERENCE: [&str; 7] = [
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
];

pub fn kinds() -> Vec<Resource> {
    let fields = |reference: &str, others: &[&str]| -> Vec<String> {
        let of_reference = REFERENCE.map(|f| format!("{reference}.{f}"));
        of_reference
            .into_iter()
            .chain(others.iter().map(|&o| o.to_owned()))
            .collect()
    };
    let mut core = Kind::new("", "v1", "Event", "events")
        .short(&["ev"])
        .columns(print::EVENT, print::core_event)
        .build();
    core.selectable_fields = fields(
        "involvedObject",
        &["reason", "reportingComponent", "source", "type"],
    );
    let mut group = Kind::new("events.k8s.io", "v1", "Event", "events")
        .short(&["ev"])
        .stored_in("", "v1")
        .columns(print::EVENT, group_row)
        .build();
    group.selectable_fields = fields("regarding", &["reason", "reportingController", "type"]);
    vec![core, group]
}

fn group_row(event: &Value, now: Timestamp) -> Vec<Value> {
    print::core_event(event, now)
}
