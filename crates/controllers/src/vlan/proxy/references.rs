//! Which Services a `ProxyServer` may forward to: those of its own namespace, and elsewhere those that a grant names. The
//! operator gives no rights without, and a proxy carries nothing.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{Backend, ProxyServer, names};

use crate::grants::{self, Grants, Users};

/// Whether the proxy may forward to the backend's Service; without `grants` every Service may be used.
pub fn is_permitted(proxy: &ProxyServer, backend: &Backend, grants: Option<&Grants>) -> bool {
    grants
        .is_none_or(|grants| grants.permit(users(proxy), &backend.target_namespace, &backend.target_service))
}

/// What to say of a backend whose Service may not be used.
pub(super) fn refusal(proxy: &ProxyServer, backend: &Backend) -> String {
    let service = BTreeSet::from([backend.target_service.as_str()]);
    grants::advice(users(proxy), &backend.target_namespace, &service)
}

/// What to say of all backends whose Services may not be used, once for each namespace.
pub(super) fn refusals(proxy: &ProxyServer, grants: Option<&Grants>) -> Vec<String> {
    let mut refused: BTreeMap<&str, (Vec<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for backend in proxy.spec.backends.iter().filter(|backend| !is_permitted(proxy, backend, grants)) {
        let (backends, services) = refused.entry(&backend.target_namespace).or_default();
        backends.push(&backend.name);
        services.insert(&backend.target_service);
    }
    let say = |(namespace, (backends, services)): (&str, (Vec<&str>, BTreeSet<&str>))| {
        format!("{}: {}", backends.join(", "), grants::advice(users(proxy), namespace, &services))
    };
    refused.into_iter().map(say).collect()
}

fn users(proxy: &ProxyServer) -> Users<'_> {
    Users {
        group: names::GROUP,
        kind: "ProxyServer",
        namespace: proxy.metadata.namespace.as_deref().unwrap_or_default(),
    }
}
