//! What clients read first: which groups, versions and resources there are, in the legacy documents and in the
//! aggregated one. Pure functions of a `Listing`.

mod aggregated;
mod resources;
mod versions;

use serde_json::{Value, json};

use crate::accept;
use crate::catalog::Listing;

pub(crate) use resources::REVIEWS;

use resources::{Entry, entries};

const JSON: &str = "application/json";

/// Answers a discovery path (`["api"]`, `["apis", "apps", "v1"]`) with a content type and a document; `None` when
/// there is no such group or version.
pub(crate) fn respond(path: &[&str], accept: &str, listing: &Listing) -> Option<(String, Value)> {
    let legacy = |document| Some((JSON.to_owned(), document));
    match path {
        ["api"] => match aggregated::wanted(accept) {
            Some(version) => Some(aggregated::document(version, &core_versions(listing))),
            None => legacy(api_versions()),
        },
        ["apis"] => match aggregated::wanted(accept) {
            Some(version) => Some(aggregated::document(version, &groups(listing))),
            None => legacy(api_group_list(&groups(listing))),
        },
        ["api", "v1"] => {
            let core = core_versions(listing);
            legacy(resource_list("v1", &core.first()?.versions.first()?.1))
        }
        ["apis", group] => {
            let groups = groups(listing);
            let mut document = api_group(groups.iter().find(|g| g.name == *group)?);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            legacy(document)
        }
        ["apis", group, version] => {
            let groups = groups(listing);
            let found = groups.iter().find(|g| g.name == *group)?;
            let (_, entries) = found.versions.iter().find(|(v, _)| v == version)?;
            legacy(resource_list(&format!("{group}/{version}"), entries))
        }
        _ => None,
    }
}

/// A group with its versions, the preferred one first, each with its resources by name.
struct Group {
    name: String,
    versions: Vec<(String, Vec<Entry>)>,
}

/// Built-in groups come first, in Kubernetes' order; a short name that several groups use means the first.
const GROUP_ORDER: [&str; 11] = [
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

fn all_groups(listing: &Listing) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for entry in entries(listing) {
        let index = groups.iter().position(|g| g.name == entry.group).unwrap_or_else(|| {
            groups.push(Group { name: entry.group.clone(), versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[index].versions;
        match versions.iter_mut().find(|(version, _)| *version == entry.version) {
            Some((_, entries)) => entries.push(entry),
            None => versions.push((entry.version.clone(), vec![entry])),
        }
    }
    let rank = |name: &str| GROUP_ORDER.iter().position(|g| *g == name).unwrap_or(GROUP_ORDER.len());
    groups.sort_by(|a, b| (rank(&a.name), &a.name).cmp(&(rank(&b.name), &b.name)));
    for group in &mut groups {
        group.versions.sort_by(|(a, _), (b, _)| versions::compare(b, a));
        for (_, entries) in &mut group.versions {
            entries.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
    }
    groups
}

fn groups(listing: &Listing) -> Vec<Group> {
    all_groups(listing).into_iter().filter(|group| !group.name.is_empty()).collect()
}

fn core_versions(listing: &Listing) -> Vec<Group> {
    all_groups(listing).into_iter().filter(|group| group.name.is_empty()).collect()
}

fn api_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

fn api_group_list(groups: &[Group]) -> Value {
    let groups: Vec<Value> = groups.iter().map(api_group).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn api_group(group: &Group) -> Value {
    let name = &group.name;
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
}

fn resource_list(group_version: &str, entries: &[Entry]) -> Value {
    let resources: Vec<Value> = entries.iter().flat_map(Entry::legacy).collect();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    // The oldest group's has none.
    if group_version != "v1" {
        list["apiVersion"] = "v1".into();
    }
    list
}

#[cfg(test)]
mod tests;
