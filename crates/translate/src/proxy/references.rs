//! Which Services a `ProxyServer` may forward to: those of its own namespace, and elsewhere those that a grant names. The
//! operator gives no rights without, and a proxy carries nothing.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{Backend, ProxyServer, names};

use crate::grants::{self, Grants, Users};
use crate::services::{ServiceRef, Services};

/// ProxyServers of a namespace, as grants name them.
pub fn users(namespace: &str) -> Users<'_> {
    Users { group: names::GROUP, kind: "ProxyServer", namespace }
}

/// Whether the proxy may forward to the backend's Service; without `grants` every Service may be used.
pub fn is_permitted(proxy: &ProxyServer, backend: &Backend, grants: Option<&Grants>) -> bool {
    let users = users(namespace(proxy));
    grants.is_none_or(|grants| grants.permit(users, &backend.target_namespace, &backend.target_service))
}

/// What to say of all backends whose Services may not be used, once for each namespace; `is_missing` tells those that do
/// not exist.
pub fn refusals(
    proxy: &ProxyServer,
    grants: Option<&Grants>,
    is_missing: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut refused: BTreeMap<&str, (Vec<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for backend in proxy.spec.backends.iter().filter(|backend| !is_permitted(proxy, backend, grants)) {
        let (backends, services) = refused.entry(&backend.target_namespace).or_default();
        backends.push(&backend.name);
        services.insert(&backend.target_service);
    }
    let say = |(target, (backends, services)): (&str, (Vec<&str>, BTreeSet<&str>))| {
        let why = if is_missing(target) {
            no_namespace(target)
        } else {
            grants::advice(users(namespace(proxy)), target, &services)
        };
        format!("{}: {why}", backends.join(", "))
    };
    refused.into_iter().map(say).collect()
}

/// What to say of a Service that ProxyServers of `namespace` may not use.
pub(super) fn refusal(namespace: &str, service: &ServiceRef, services: &Services) -> String {
    if services.is_missing(&service.namespace) {
        return no_namespace(&service.namespace);
    }
    grants::advice(users(namespace), &service.namespace, &BTreeSet::from([service.name.as_str()]))
}

fn no_namespace(name: &str) -> String {
    format!("there is no namespace {name}: create it, or correct targetNamespace")
}

fn namespace(proxy: &ProxyServer) -> &str {
    proxy.metadata.namespace.as_deref().unwrap_or_default()
}
