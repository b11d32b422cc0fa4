//! What `kubectl get` shows of the built-in kinds: column definitions and one row's cells per kind.
//! Wide columns have priority 1; a row always has a cell for every column.

mod access;
mod admission;
mod cluster;
mod config;
mod events;
mod network;
mod pods;
mod workloads;

pub(super) use access::{BINDING, CREATED, binding, created};
pub(super) use admission::{POLICY, POLICY_BINDING, policy, policy_binding};
pub(super) use cluster::{CLAIM, LEASE, NAMESPACE, NODE, claim, lease, namespace, node};
pub(super) use config::{CONFIG_MAP, SECRET, SERVICE_ACCOUNT, config_map, secret, service_account};
pub(super) use events::{EVENT, core_event};
pub(super) use network::{
    ENDPOINT_SLICE, ENDPOINTS, NETWORK_POLICY, SERVICE, endpoint_slice, endpoints, network_policy, service,
};
pub(super) use pods::{POD, pod};
pub(super) use workloads::{
    AUTOSCALER, CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, autoscaler,
    controller_revision, daemon_set, deployment, replica_set, stateful_set,
};

use jiff::Timestamp;
use serde_json::Value;

use super::json::{entries, items, text};
use crate::object;
use crate::resource::ColumnDef;
use crate::table;

const NAME: ColumnDef = ColumnDef {
    name: "Name",
    ty: "string",
    format: "name",
    description: "Name of the object, unique in its namespace.",
    priority: 0,
};
const AGE: ColumnDef = col("Age", "string", "Time since the object was created.");
const CONTAINERS: ColumnDef = wide("Containers", "Names of the containers in the template.");
const IMAGES: ColumnDef = wide("Images", "Images of the containers in the template.");
const SELECTOR: ColumnDef = wide("Selector", "Labels of the pods this object selects.");

const fn col(name: &'static str, ty: &'static str, description: &'static str) -> ColumnDef {
    ColumnDef { name, ty, format: "", description, priority: 0 }
}

const fn wide(name: &'static str, description: &'static str) -> ColumnDef {
    ColumnDef { name, ty: "string", format: "", description, priority: 1 }
}

/// The object's name, as a cell.
fn name(object: &Value) -> Value {
    object::name(object).into()
}

/// Time since the object was created, as a cell.
fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

/// Time since a timestamp field.
fn since(field: &Value, now: Timestamp) -> String {
    table::age(field.as_str().unwrap_or_default(), now)
}

/// A whole number of a map, 0 when absent, as a cell.
fn count(object: &Value, key: &str) -> Value {
    object[key].as_i64().unwrap_or_default().into()
}

fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

/// A map of labels: `a=b,c=d`.
fn labels(object: &Value, key: &str) -> String {
    let mut pairs: Vec<_> =
        entries(object, key).map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    pairs.sort();
    or(&pairs.join(","), "<none>").to_owned()
}

/// A label selector in the text form of the `labelSelector` parameter.
fn selector(selector: &Value) -> String {
    let mut terms: Vec<(String, String)> = entries(selector, "matchLabels")
        .map(|(k, v)| (k.clone(), format!("{k}={}", v.as_str().unwrap_or_default())))
        .collect();
    for rule in items(selector, "matchExpressions") {
        let key = text(rule, "key");
        let mut values = super::json::texts(rule, "values");
        values.sort_unstable();
        let term = match text(rule, "operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort();
    let terms: Vec<_> = terms.into_iter().map(|(_, term)| term).collect();
    or(&terms.join(","), "<none>").to_owned()
}

/// The first `max` entries, and how many more there are.
fn first(list: Vec<String>, max: usize, separator: &str, empty: &str) -> String {
    let more = list.len().saturating_sub(max);
    let shown = list.into_iter().take(max).collect::<Vec<_>>().join(separator);
    match (shown.is_empty(), more) {
        (true, _) => empty.to_owned(),
        (false, 0) => shown,
        (false, more) => format!("{shown} + {more} more..."),
    }
}

#[cfg(test)]
mod tests;
