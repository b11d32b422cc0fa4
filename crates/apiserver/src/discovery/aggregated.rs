//! The aggregated discovery document: all groups, versions and resources in one answer.

use serde_json::{Value, json};

use super::{Entry, Group, accept};

/// The version of the document that the client prefers; `None` if it wants the legacy documents.
pub(super) fn wanted(accept: &str) -> Option<&'static str> {
    for clause in accept::parse(accept).iter().filter(|clause| clause.takes_json()) {
        match clause.conversion() {
            None => return None,
            Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")) => return Some("v2"),
            Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1")) => return Some("v2beta1"),
            Some(_) => {}
        }
    }
    None
}

/// The content type and the document.
pub(super) fn document(version: &str, groups: &[Group]) -> (String, Value) {
    let items: Vec<Value> = groups.iter().map(group).collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    });
    (format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"), document)
}

fn group(group: &Group) -> Value {
    let versions = group.versions.iter().map(|(version, entries)| {
        let resources: Vec<Value> = entries.iter().map(Entry::aggregated).collect();
        json!({ "version": version, "resources": resources, "freshness": "Current" })
    });
    let metadata = if group.name.is_empty() { json!({}) } else { json!({ "name": group.name }) };
    json!({ "metadata": metadata, "versions": versions.collect::<Vec<_>>() })
}
