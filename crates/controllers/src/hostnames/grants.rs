//! What each namespace holds, as admission and gateways read it. Nobody else writes these.

use std::collections::BTreeMap;

use causeway_api::{HostnameGrant, HostnameGrantSpec, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

use crate::framework::{
    apply::{Applier, Owner, Wanted},
    children::Children,
    error::Error,
    kinds::HOSTNAME_GRANT,
};

/// Brings every namespace's grant to what it holds, that of the gateways' namespace (`edge`) last; other objects of the kind go, whoever made them.
///
/// # Errors
/// The worst of what the API server refused.
pub(super) async fn write(
    applier: &Applier,
    grants: &BTreeMap<String, HostnameGrantSpec>,
    edge: &str,
    children: &Children,
) -> Result<(), Error> {
    let mut failures = Vec::new();
    // That of the gateways' namespace says whose own is to be looked at: it comes after those.
    let (last, others): (Vec<_>, Vec<_>) = grants.iter().partition(|(namespace, _)| *namespace == edge);
    for (namespace, spec) in others.into_iter().chain(last) {
        let found = children.get(HOSTNAME_GRANT, namespace, names::HOSTNAME_GRANT);
        let is_so = found.as_ref().is_some_and(|found| {
            serde_json::from_value::<HostnameGrantSpec>(found.data["spec"].clone())
                .is_ok_and(|there| there == *spec)
        });
        if is_so {
            continue;
        }
        let grant = HostnameGrant {
            metadata: ObjectMeta {
                name: Some(names::HOSTNAME_GRANT.to_owned()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: spec.clone(),
            status: None,
        };
        let wanted = Wanted::new(HOSTNAME_GRANT, &grant);
        failures.extend(applier.found(&Owner::nobody(namespace), &wanted, children).await.err());
    }
    for grant in children.all(HOSTNAME_GRANT) {
        let namespace = grant.namespace().unwrap_or_default();
        let is_known = grant.name_any() == names::HOSTNAME_GRANT && grants.contains_key(&namespace);
        if !is_known {
            failures.extend(applier.delete(HOSTNAME_GRANT, &grant).await.err());
        }
    }
    // A namespace that goes takes no more objects, and needs none.
    failures.retain(|error| error.category() != crate::framework::error::Category::Terminating);
    let failed = failures.len();
    let worst = failures.into_iter().max_by_key(|error| error.category().retry());
    worst.map_or(Ok(()), |source| Err(Error::Objects { failed, total: failed, source: Box::new(source) }))
}
