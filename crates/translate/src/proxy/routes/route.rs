//! A route as it is written, whichever version of its kind that was: the fields that matter are the same in all.

use causeway_api::{RouteKind, names};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde::Deserialize;

use crate::references::{BackendRef, ParentRef};

/// The part of a route that matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its kind.
    pub kind: RouteKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The version of its spec.
    pub generation: i64,
    /// When it was created.
    pub created: String,
    /// What it wants to attach to: ProxyServers, and what is nothing to us.
    pub parents: Vec<ParentRef>,
    /// Names that clients ask for.
    pub hostnames: Vec<String>,
    /// Where connections go, by rule.
    pub rules: Vec<Vec<BackendRef>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    parent_refs: Vec<ParentRef>,
    #[serde(default)]
    hostnames: Vec<String>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    backend_refs: Vec<BackendRef>,
}

impl Route {
    /// Reads an object of this kind; none if it does not look like one.
    pub fn read(kind: RouteKind, object: &DynamicObject) -> Option<Self> {
        let spec = Spec::deserialize(object.data.get("spec")?).ok()?;
        Some(Self {
            kind,
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            created: object.creation_timestamp().map(|time| time.0.to_string()).unwrap_or_default(),
            parents: spec.parent_refs,
            hostnames: spec.hostnames,
            rules: spec.rules.into_iter().map(|rule| rule.backend_refs).collect(),
        })
    }

    /// Those of its parents that are this ProxyServer, by their place in the list.
    pub fn parents_of<'a>(
        &'a self,
        namespace: &'a str,
        proxy: &'a str,
    ) -> impl Iterator<Item = &'a ParentRef> {
        self.parents.iter().filter(move |parent| parent.is(&self.namespace, namespace, proxy))
    }
}

impl ParentRef {
    /// Whether it is this ProxyServer, for a route of namespace `route`.
    pub fn is(&self, route: &str, namespace: &str, proxy: &str) -> bool {
        self.group.as_deref() == Some(names::GROUP)
            && self.kind.as_deref() == Some("ProxyServer")
            && self.name == proxy
            && self.namespace.as_deref().unwrap_or(route) == namespace
    }
}
