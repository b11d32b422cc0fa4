//! The row of an Event, in its core form.

use jiff::Timestamp;
use serde_json::Value;

use super::{col, name, or, since, wide};
use crate::builtin::json::{int, text};
use crate::resource::ColumnDef;

pub(crate) const EVENT: &[ColumnDef] = &[
    col("Last Seen", "string", "Time since it happened last."),
    col("Type", "string", "Normal or Warning."),
    col("Reason", "string", "What happened, in one word."),
    col("Object", "string", "What it happened to."),
    wide("Subobject", "The part of the object."),
    wide("Source", "Who reports it."),
    col("Message", "string", "What happened, for people."),
    wide("First Seen", "Time since it happened first."),
    wide("Count", "How often it happened."),
    ColumnDef { format: "name", ..wide("Name", "Name of the Event itself.") },
];

pub(crate) fn core_event(event: &Value, now: Timestamp) -> Vec<Value> {
    let or_field = |a: &'static str, b: &'static str| {
        if event[a].is_string() { &event[a] } else { &event[b] }
    };
    let first = since(or_field("firstTimestamp", "eventTime"), now);
    let series = &event["series"];
    let (last, count) = if series.is_object() {
        (since(&series["lastObservedTime"], now), int(series, "count").unwrap_or_default())
    } else {
        let last = if event["lastTimestamp"].is_string() {
            since(&event["lastTimestamp"], now)
        } else {
            first.clone()
        };
        (last, int(event, "count").filter(|&n| n != 0).unwrap_or(1))
    };
    let target = &event["involvedObject"];
    let kind = text(target, "kind").to_lowercase();
    let target_name = match text(target, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = or(text(&event["source"], "component"), text(event, "reportingComponent"));
    let source = match or(text(&event["source"], "host"), text(event, "reportingInstance")) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    vec![
        last.into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        target_name.into(),
        text(target, "fieldPath").into(),
        source.into(),
        text(event, "message").trim().into(),
        first.into(),
        count.into(),
        name(event),
    ]
}
