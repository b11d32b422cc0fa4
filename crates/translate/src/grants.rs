//! What namespaces let objects of other namespaces use: the ReferenceGrants of the Gateway API. An object may always use
//! what is in its own namespace, and elsewhere only what a grant there names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gateway_api::referencegrants::ReferenceGrantSpec;
use kube::{ResourceExt, core::DynamicObject};

pub use gateway_api::referencegrants::ReferenceGrant;

/// Services that an advice names.
const MOST_NAMED: usize = 5;

/// Objects of one kind in one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Users<'a> {
    /// Their API group.
    pub group: &'a str,
    /// Their kind.
    pub kind: &'a str,
    /// Their namespace.
    pub namespace: &'a str,
}

/// An object that others may want to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Its API group; empty for the core group.
    pub group: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// A Service, to be a client of.
    pub fn service(name: &'a str) -> Self {
        Self { group: "", kind: "Service", name }
    }

    /// The EndpointSlices of a Service, to be written.
    pub fn slices_of(service: &'a str) -> Self {
        Self { group: "discovery.k8s.io", kind: "EndpointSlice", name: service }
    }
}

/// Grants, by the namespace that gives them.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    by_namespace: BTreeMap<String, Vec<Arc<ReferenceGrant>>>,
}

impl FromIterator<Arc<ReferenceGrant>> for Grants {
    fn from_iter<I: IntoIterator<Item = Arc<ReferenceGrant>>>(grants: I) -> Self {
        let mut by_namespace: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for grant in grants {
            by_namespace.entry(grant.namespace().unwrap_or_default()).or_default().push(grant);
        }
        Self { by_namespace }
    }
}

impl Grants {
    /// The grants among objects of a cache; what is not one gives nothing.
    pub fn read(objects: &[Arc<DynamicObject>]) -> Self {
        let typed = |object: &Arc<DynamicObject>| {
            DynamicObject::clone(object).try_parse::<ReferenceGrant>().ok().map(Arc::new)
        };
        objects.iter().filter_map(typed).collect()
    }

    /// Whether the users may forward to this Service.
    pub fn permit(&self, users: Users<'_>, namespace: &str, service: &str) -> bool {
        self.permit_object(users, namespace, Target::service(service))
    }

    /// Whether the users may forward to every Service of `namespace`, now and later.
    pub fn permit_all(&self, users: Users<'_>, namespace: &str) -> bool {
        self.permit_object(users, namespace, Target::service(""))
    }

    /// Whether the users may use this object of `namespace`.
    pub fn permit_object(&self, users: Users<'_>, namespace: &str, target: Target<'_>) -> bool {
        users.namespace == namespace
            || self
                .by_namespace
                .get(namespace)
                .is_some_and(|grants| grants.iter().any(|grant| gives(&grant.spec, users, target)))
    }
}

fn gives(grant: &ReferenceGrantSpec, users: Users<'_>, target: Target<'_>) -> bool {
    grant
        .from
        .iter()
        .any(|from| from.group == users.group && from.kind == users.kind && from.namespace == users.namespace)
        && grant.to.iter().any(|to| {
            to.group == target.group
                && to.kind == target.kind
                && to.name.as_deref().is_none_or(|name| name == target.name)
        })
}

/// What to do where a grant is missing for Services; of many, a few are named.
pub fn advice(users: Users<'_>, namespace: &str, services: &BTreeSet<&str>) -> String {
    let mut names: Vec<String> = services.iter().take(MOST_NAMED).map(|name| (*name).to_owned()).collect();
    if services.len() > MOST_NAMED {
        names.push(format!("and {} more", services.len() - MOST_NAMED));
    }
    let kind = if services.len() == 1 { "Service" } else { "Services" };
    let missing = format!(
        "does not let {}s of namespace {} use its {kind} {}",
        users.kind,
        users.namespace,
        names.join(", ")
    );
    advise(users, namespace, &missing, r#"group "", kind Service"#)
}

/// What to do where a grant is missing for this object.
pub fn advice_for(users: Users<'_>, namespace: &str, target: Target<'_>) -> String {
    let Target { group, kind, name } = target;
    let what = match kind {
        "EndpointSlice" => format!("write the EndpointSlices of its Service {name}"),
        _ => format!("use its {kind} {name}"),
    };
    let missing = format!("does not let {}s of namespace {} {what}", users.kind, users.namespace);
    let group = if group.is_empty() { r#""""# } else { group };
    advise(users, namespace, &missing, &format!("group {group}, kind {kind}"))
}

fn advise(users: Users<'_>, namespace: &str, missing: &str, to: &str) -> String {
    format!(
        "namespace {namespace} {missing}: create a ReferenceGrant in {namespace} (apiVersion \
         gateway.networking.k8s.io/v1) from group {}, kind {}, namespace {} to {to}",
        users.group, users.kind, users.namespace,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const EDGE: Users<'_> = Users { group: "causeway.dev", kind: "ProxyServer", namespace: "edge" };

    fn grants(spec: &Value) -> Grants {
        let grant = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": { "name": "g", "namespace": "apps" }, "spec": spec,
        });
        Grants::read(&[Arc::new(serde_json::from_value(grant).unwrap())])
    }

    fn from(kind: &str, namespace: &str) -> Value {
        json!({ "group": "causeway.dev", "kind": kind, "namespace": namespace })
    }

    #[test]
    fn what_is_at_home_needs_no_grant_and_what_is_elsewhere_does() {
        assert!(Grants::default().permit(EDGE, "edge", "web"));
        assert!(!Grants::default().permit(EDGE, "apps", "web"));
    }

    #[test]
    fn a_grant_is_for_its_namespace_its_users_and_its_services_alone() {
        let all = json!([{ "group": "", "kind": "Service" }]);
        let web = json!([{ "group": "", "kind": "Service", "name": "web" }]);
        let edge = json!([from("Infra", "edge"), from("ProxyServer", "edge")]);
        for (from, to, namespace, service, permitted) in [
            (&edge, &all, "apps", "web", true),
            (&edge, &all, "other", "web", false),
            (&edge, &web, "apps", "web", true),
            (&edge, &web, "apps", "db", false),
            (&edge, &json!([{ "group": "", "kind": "Secret" }]), "apps", "web", false),
            (&edge, &json!([{ "group": "example.com", "kind": "Service" }]), "apps", "web", false),
            (&json!([from("ProxyServer", "lab")]), &all, "apps", "web", false),
            (&json!([from("Infra", "edge")]), &all, "apps", "web", false),
            (&json!([]), &all, "apps", "web", false),
        ] {
            let grants = grants(&json!({ "from": from, "to": to }));
            assert_eq!(
                grants.permit(EDGE, namespace, service),
                permitted,
                "{from} {to} {namespace}/{service}"
            );
        }
    }

    #[test]
    fn one_service_is_not_all_of_them() {
        let to = |to: Value| grants(&json!({ "from": [from("ProxyServer", "edge")], "to": [to] }));
        assert!(to(json!({ "group": "", "kind": "Service" })).permit_all(EDGE, "apps"));
        assert!(!to(json!({ "group": "", "kind": "Service", "name": "web" })).permit_all(EDGE, "apps"));
    }

    #[test]
    fn what_is_not_a_grant_gives_nothing() {
        assert!(!grants(&json!({ "from": "edge" })).permit(EDGE, "apps", "web"));
    }
}
