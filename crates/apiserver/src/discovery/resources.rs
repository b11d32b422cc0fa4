//! One resource as discovery shows it, made from the catalog or from the table of reviews.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::catalog::Listing;
use crate::resource::Resource;

/// A resource that can only be created: the answer comes back, nothing is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Review {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub namespaced: bool,
}

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    namespaced: bool,
) -> Review {
    Review { group, version: "v1", kind, plural, singular, namespaced }
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Every create-only resource.
pub(crate) const REVIEWS: [Review; 6] = [
    review(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview", false),
    review(AUTHENTICATION, "TokenReview", "tokenreviews", "tokenreview", false),
    review(
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        true,
    ),
    review(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        false,
    ),
    review(
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        false,
    ),
    review(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview", false),
];

/// A resource of one version with its subresources.
pub(super) struct Entry {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub verbs: &'static [&'static str],
    pub storage_hash: Option<String>,
    /// Whether the kind comes from a CRD.
    pub custom: bool,
    /// Sorted by name, but for custom resources.
    pub subresources: Vec<Subresource>,
}

/// Part of a resource with a path of its own.
pub(super) struct Subresource {
    pub name: String,
    /// Group, version and kind of what it answers.
    pub kind: (String, String, String),
    pub verbs: &'static [&'static str],
}

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// In the order in which Kubernetes says them of custom resources.
const CUSTOM_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// A collection of namespaces can't be deleted in one request.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const PART_VERBS: &[&str] = &["get", "patch", "update"];

/// Everything that is served, in no particular order.
pub(super) fn entries(listing: &Listing) -> impl Iterator<Item = Entry> {
    listing.iter().map(|resource| stored(resource)).chain(REVIEWS.iter().map(create_only))
}

fn stored(resource: &Resource) -> Entry {
    Entry {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        singular: resource.singular.clone(),
        namespaced: resource.namespaced,
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        verbs: match (resource.is_custom(), resource.can_be_emptied()) {
            (true, _) => CUSTOM_VERBS,
            (false, true) => ALL_VERBS,
            (false, false) => NAMESPACE_VERBS,
        },
        storage_hash: Some(storage_hash(&resource.storage_group, &resource.storage_version, &resource.kind)),
        custom: resource.is_custom(),
        subresources: subresources(resource),
    }
}

fn create_only(review: &Review) -> Entry {
    Entry {
        group: review.group.to_owned(),
        version: review.version.to_owned(),
        kind: review.kind.to_owned(),
        plural: review.plural.to_owned(),
        singular: review.singular.to_owned(),
        namespaced: review.namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: &["create"],
        storage_hash: None,
        custom: false,
        subresources: Vec::new(),
    }
}

fn subresources(resource: &Resource) -> Vec<Subresource> {
    let named = |group: &str, version: &str, kind: &str| (group.into(), version.into(), kind.into());
    let own = || named(&resource.group, &resource.version, &resource.kind);
    let mut parts = Vec::new();
    if resource.subresources.status {
        parts.push(Subresource { name: "status".into(), kind: own(), verbs: PART_VERBS });
    }
    if resource.subresources.scale.is_some() {
        let kind = named("autoscaling", "v1", "Scale");
        parts.push(Subresource { name: "scale".into(), kind, verbs: PART_VERBS });
    }
    for name in &resource.subresources.others {
        let (kind, verbs): (_, &[&str]) = match name.as_str() {
            "token" => (named(AUTHENTICATION, "v1", "TokenRequest"), &["create"]),
            "eviction" => (named("policy", "v1", "Eviction"), &["create"]),
            "binding" => (named("", "v1", "Binding"), &["create"]),
            "finalize" => (own(), &["update"]),
            "log" => (own(), &["get"]),
            "portforward" => (named("", "v1", "PodPortForwardOptions"), &["create", "get"]),
            _ => (own(), PART_VERBS),
        };
        parts.push(Subresource { name: name.clone(), kind, verbs });
    }
    if !resource.is_custom() {
        parts.sort_by(|a, b| a.name.cmp(&b.name));
    }
    parts
}

/// Changes when objects come to be stored in another version.
fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    let hash = digest(&SHA256, format!("{group}/{version}/{kind}").as_bytes());
    BASE64_STANDARD.encode(&hash.as_ref()[..8])
}

impl Entry {
    /// The items of an `APIResourceList`: the resource, then its subresources.
    pub(super) fn legacy(&self) -> Vec<Value> {
        let mut main = json!({
            "name": self.plural, "singularName": self.singular, "namespaced": self.namespaced,
            "kind": self.kind, "verbs": self.verbs,
        });
        if !self.short_names.is_empty() {
            main["shortNames"] = json!(self.short_names);
        }
        if !self.categories.is_empty() {
            main["categories"] = json!(self.categories);
        }
        if let Some(hash) = &self.storage_hash {
            main["storageVersionHash"] = json!(hash);
        }
        let mut items = vec![main];
        for part in &self.subresources {
            let (group, version, kind) = &part.kind;
            let mut item = json!({
                "name": format!("{}/{}", self.plural, part.name), "singularName": "",
                "namespaced": self.namespaced, "kind": kind, "verbs": part.verbs,
            });
            // Named only where the answer belongs to another group.
            if (group, version) != (&self.group, &self.version) {
                item["group"] = json!(group);
                item["version"] = json!(version);
            }
            items.push(item);
        }
        items
    }

    /// The item of an aggregated discovery document.
    pub(super) fn aggregated(&self) -> Value {
        // Named only where the answer belongs to another group.
        let kind_of = |group: &str, version: &str, kind: &str| {
            let own = (group, version) == (self.group.as_str(), self.version.as_str()) && !self.custom;
            let (group, version) = if own { ("", "") } else { (group, version) };
            json!({ "group": group, "version": version, "kind": kind })
        };
        let own = kind_of(&self.group, &self.version, &self.kind);
        let mut item = json!({
            "resource": self.plural, "responseKind": own, "singularResource": self.singular,
            "scope": if self.namespaced { "Namespaced" } else { "Cluster" }, "verbs": self.verbs,
        });
        if !self.short_names.is_empty() {
            item["shortNames"] = json!(self.short_names);
        }
        if !self.categories.is_empty() {
            item["categories"] = json!(self.categories);
        }
        if !self.subresources.is_empty() {
            let parts = self.subresources.iter().map(|part| {
                let (group, version, kind) = &part.kind;
                json!({
                    "subresource": part.name, "verbs": part.verbs,
                    "responseKind": kind_of(group, version, kind),
                })
            });
            item["subresources"] = parts.collect();
        }
        item
    }
}
