//! Whether a proxy's service account may read what it needs.

use std::collections::BTreeSet;

use causeway_api::{Backend, ProxyServer};
use causeway_translate::proxy::references;
use causeway_translate::services::{ServiceRef, Services};
use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use super::workload::Workload;
use crate::commands::doctor::finding::Finding;
use crate::parts::refusal;

/// Questions to the API server at a time.
const AT_ONCE: usize = 16;

/// The rights in its own namespace, and in those that it reads by itself: the operator says which.
pub(super) async fn access(
    client: &Client,
    proxy: &ProxyServer,
    workload: &Workload,
    services: &Services,
) -> Vec<Finding> {
    let own = proxy.namespace().unwrap_or_default();
    let Some(account) = workload.service_account() else { return Vec::new() };
    let user = format!("system:serviceaccount:{own}:{account}");
    let service = |backend: &Backend| ServiceRef {
        namespace: backend.target_namespace.clone(),
        name: backend.target_service.clone(),
    };
    let supply = proxy.status.as_ref().and_then(|status| status.supply.as_ref());
    let namespaces: BTreeSet<String> = if let Some(supply) = supply {
        supply.namespaces.iter().cloned().collect()
    } else {
        let wanted = proxy.spec.backends.iter().map(service);
        let permitted = wanted.filter(|service| services.permit(references::users(&own), service));
        permitted.map(|service| service.namespace).collect()
    };
    let own_object =
        ResourceAttributes { name: Some(proxy.name_any()), ..watch("causeway.dev", "proxyservers", &own) };
    let elsewhere = namespaces.iter().flat_map(|namespace| {
        [watch("", "services", namespace), watch("discovery.k8s.io", "endpointslices", namespace)]
    });
    let asks: Vec<_> = std::iter::once(own_object).chain(elsewhere).collect();
    stream::iter(asks).map(|what| ask(client, &user, what)).buffered(AT_ONCE).collect().await
}

fn watch(group: &str, resource: &str, namespace: &str) -> ResourceAttributes {
    ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some("watch".to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ResourceAttributes::default()
    }
}

async fn ask(client: &Client, user: &str, what: ResourceAttributes) -> Finding {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let said = format!("watch {} in namespace {}", text(&what.resource), text(&what.namespace));
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(what),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    match Api::all(client.clone()).create(&PostParams::default(), &review).await {
        Ok(review) if review.status.as_ref().is_some_and(|s| s.allowed) => {
            Finding::good(format!("{user} may {said}"))
        }
        Ok(_) => Finding::bad(
            format!("{user} may not {said}"),
            "the operator grants it: see whether the Role and RoleBinding are there",
        ),
        Err(error) => {
            let why = refusal::words(&error);
            Finding::skipped(format!("{user}: its rights can't be asked for: {why}"))
        }
    }
}
