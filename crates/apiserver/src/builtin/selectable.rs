//! What a field selector compares: the text of a selectable field, with the value that an absent one stands for.

use serde_json::Value;

use super::json::{items, text};
use crate::object;
use crate::resource::Resource;

/// The text of a selectable field of an object in the version of `resource`.
pub(crate) fn field_value(resource: &Resource, object: &Value, path: &str) -> String {
    match (resource.group.as_str(), resource.plural.as_str(), path) {
        ("", "events", "source") => {
            let component = text(&object["source"], "component");
            let source = if component.is_empty() { text(object, "reportingComponent") } else { component };
            return source.to_owned();
        }
        ("", "pods", "status.podIPs") => {
            let ips: Vec<_> = items(&object["status"], "podIPs").iter().map(|ip| text(ip, "ip")).collect();
            return ips.join(",");
        }
        _ => {}
    }
    match object::at_path(object, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => absent(resource, path).to_owned(),
        Some(other) => other.to_string(),
    }
}

/// Numbers and flags that are left out are zero and false.
fn absent(resource: &Resource, path: &str) -> &'static str {
    match (resource.group.as_str(), resource.plural.as_str(), path) {
        ("", "pods", "spec.hostNetwork") | ("", "nodes", "spec.unschedulable") => "false",
        ("apps", "replicasets", "status.replicas") => "0",
        _ => "",
    }
}
