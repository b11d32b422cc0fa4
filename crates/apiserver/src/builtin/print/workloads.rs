//! Rows of the kinds that keep pods running.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, col, count, first, labels, name, selector};
use crate::builtin::json::{int, items, text};
use crate::error::qualified;
use crate::resource::ColumnDef;

const READY: ColumnDef = col("Ready", "string", "Pods that are ready, of the pods wanted.");
const DESIRED: ColumnDef = col("Desired", "integer", "Pods wanted.");
const CURRENT: ColumnDef = col("Current", "integer", "Pods that exist.");
const READY_COUNT: ColumnDef = col("Ready", "integer", "Pods that are ready.");

pub(crate) const DEPLOYMENT: &[ColumnDef] = &[
    NAME,
    READY,
    col("Up-to-date", "string", "Pods made from the current template."),
    col("Available", "string", "Pods that have been ready for long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(crate) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let [containers, images] = containers(object);
    vec![
        name(object),
        ready(object),
        count(status, "updatedReplicas"),
        count(status, "availableReplicas"),
        age(object, now),
        containers,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

pub(crate) const REPLICA_SET: &[ColumnDef] =
    &[NAME, DESIRED, CURRENT, READY_COUNT, AGE, CONTAINERS, IMAGES, SELECTOR];

pub(crate) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object);
    vec![
        name(object),
        count(&object["spec"], "replicas"),
        count(&object["status"], "replicas"),
        count(&object["status"], "readyReplicas"),
        age(object, now),
        containers,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

pub(crate) const STATEFUL_SET: &[ColumnDef] = &[NAME, READY, AGE, CONTAINERS, IMAGES];

pub(crate) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object);
    vec![name(object), ready(object), age(object, now), containers, images]
}

pub(crate) const CONTROLLER_REVISION: &[ColumnDef] = &[
    NAME,
    col("Controller", "string", "The object whose template it is."),
    col("Revision", "string", "The number of the revision."),
    AGE,
];

pub(crate) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = items(&object["metadata"], "ownerReferences");
    let owner = owners.iter().find(|owner| owner["controller"] == true).map(|owner| {
        let group = text(owner, "apiVersion").split_once('/').map_or("", |(group, _)| group);
        let kind = qualified(group, text(owner, "kind")).to_lowercase();
        format!("{kind}/{}", text(owner, "name"))
    });
    let owner = owner.unwrap_or_else(|| "<none>".to_owned());
    vec![name(object), owner.into(), count(object, "revision"), age(object, now)]
}

pub(crate) const DAEMON_SET: &[ColumnDef] = &[
    NAME,
    DESIRED,
    CURRENT,
    READY_COUNT,
    col("Up-to-date", "integer", "Pods made from the current template."),
    col("Available", "integer", "Pods that have been ready for long enough."),
    col("Node Selector", "string", "Labels a node must have to run the pod."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(crate) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let [containers, images] = containers(object);
    vec![
        name(object),
        count(status, "desiredNumberScheduled"),
        count(status, "currentNumberScheduled"),
        count(status, "numberReady"),
        count(status, "updatedNumberScheduled"),
        count(status, "numberAvailable"),
        labels(&object["spec"]["template"]["spec"], "nodeSelector").into(),
        age(object, now),
        containers,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

pub(crate) const AUTOSCALER: &[ColumnDef] = &[
    NAME,
    col("Reference", "string", "The object that is scaled."),
    col("Targets", "string", "Measured and wanted value of each metric."),
    col("MinPods", "string", "The fewest pods."),
    col("MaxPods", "string", "The most pods."),
    col("Replicas", "string", "Pods there are."),
    AGE,
];

pub(crate) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    vec![
        name(object),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        metrics(items(spec, "metrics"), items(status, "currentMetrics")).into(),
        int(spec, "minReplicas").map_or("<unset>".to_owned(), |n| n.to_string()).into(),
        count(spec, "maxReplicas"),
        count(status, "currentReplicas"),
        age(object, now),
    ]
}

fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    let list = specs.iter().enumerate().map(|(i, spec)| metric(spec, statuses.get(i))).collect();
    first(list, 2, ", ", "<none>")
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let source = match text(spec, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&spec[source]["target"], status.map(|s| &s[source]["current"]));
    let show = |key: &str| -> [String; 2] {
        let unit = if key == "averageUtilization" { "%" } else { "" };
        let shown = |value: &Value, absent: &str| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => format!("{number}{unit}"),
            _ => absent.to_owned(),
        };
        let absent = if unit == "%" { "<auto>" } else { "0" };
        [shown(current.map_or(&Value::Null, |c| &c[key]), "<unknown>"), shown(&target[key], absent)]
    };
    let average = !target["averageValue"].is_null();
    match source {
        "resource" | "containerResource" => {
            let [is, want] = show(if average { "averageValue" } else { "averageUtilization" });
            format!("{}: {is}/{want}", text(&spec[source], "name"))
        }
        "pods" => show("averageValue").join("/"),
        _ if average => format!("{} (avg)", show("averageValue").join("/")),
        _ => show("value").join("/"),
    }
}

fn ready(object: &Value) -> Value {
    let ready = int(&object["status"], "readyReplicas").unwrap_or_default();
    format!("{ready}/{}", int(&object["spec"], "replicas").unwrap_or_default()).into()
}

fn containers(object: &Value) -> [Value; 2] {
    let containers = items(&object["spec"]["template"]["spec"], "containers");
    ["name", "image"].map(|key| containers.iter().map(|c| text(c, key)).collect::<Vec<_>>().join(",").into())
}
