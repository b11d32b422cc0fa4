//! What the cluster made of a proxy: its Deployment and pods, its network, and what its service account may do.

use std::collections::BTreeSet;

use causeway_api::{Backend, ProxyServer};
use causeway_translate::proxy::references;
use causeway_translate::services::{ServiceRef, Services};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};

use super::Finding;

const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// The Deployment that the status names, if there is one.
async fn deployment(client: &Client, proxy: &ProxyServer) -> Option<Result<Option<Deployment>, kube::Error>> {
    let name = proxy.status.as_ref()?.deployment_name.clone()?;
    let namespace = proxy.namespace().unwrap_or_default();
    Some(Api::<Deployment>::namespaced(client.clone(), &namespace).get_opt(&name).await)
}

async fn pods(client: &Client, proxy: &ProxyServer) -> Vec<Pod> {
    let Some(Ok(Some(deployment))) = deployment(client, proxy).await else { return Vec::new() };
    let labels = deployment.spec.and_then(|s| s.selector.match_labels).unwrap_or_default();
    let selector = labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
    let api: Api<Pod> = Api::namespaced(client.clone(), &proxy.namespace().unwrap_or_default());
    api.list(&ListParams::default().labels(&selector)).await.map(|list| list.items).unwrap_or_default()
}

/// The Deployment and its pods.
pub(super) async fn workload(client: &Client, proxy: &ProxyServer) -> Vec<Finding> {
    let deployment = match deployment(client, proxy).await {
        None => return vec![Finding::Skipped("the status names no Deployment".into())],
        Some(Err(error)) => return vec![Finding::Skipped(format!("its Deployment can't be read: {error}"))],
        Some(Ok(None)) => {
            return vec![Finding::Bad(
                "its Deployment is gone".into(),
                "the operator makes it again: see whether it runs".into(),
            )];
        }
        Some(Ok(Some(deployment))) => deployment,
    };
    let name = deployment.name_any();
    let wanted = deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0);
    let mut found = vec![if ready >= wanted {
        Finding::Good(format!("Deployment {name} has {ready} of {wanted} pods ready"))
    } else {
        Finding::Bad(
            format!("Deployment {name} has {ready} of {wanted} pods ready"),
            format!(
                "look at them with kubectl describe deployment/{name} and kubectl logs deployment/{name}"
            ),
        )
    }];
    for pod in pods(client, proxy).await {
        let statuses = pod.status.clone().unwrap_or_default().container_statuses.unwrap_or_default();
        for container in statuses {
            let waiting = container.state.and_then(|s| s.waiting);
            if let Some(waiting) = waiting {
                found.push(Finding::Bad(
                    format!("pod {} container {} waits", pod.name_any(), container.name),
                    format!(
                        "{}: {}",
                        waiting.reason.unwrap_or_default(),
                        waiting.message.unwrap_or_default()
                    ),
                ));
            }
        }
    }
    found
}

/// The network attachment, if one is asked for, and what became of it on each pod.
pub(super) async fn network(client: &Client, proxy: &ProxyServer) -> Vec<Finding> {
    let wanted = &proxy.spec.network_config;
    let Some(name) = &wanted.network_attachment_name else {
        return vec![Finding::Skipped("no NetworkAttachmentDefinition is asked for".into())];
    };
    let own = proxy.namespace().unwrap_or_default();
    let namespace = wanted.network_attachment_namespace.clone().unwrap_or(own);
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"),
        "network-attachment-definitions",
    );
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
    let mut found = vec![match api.get_opt(name).await {
        Ok(Some(_)) => Finding::Good(format!("NetworkAttachmentDefinition {namespace}/{name} exists")),
        Ok(None) => Finding::Bad(
            format!("there is no NetworkAttachmentDefinition {namespace}/{name}"),
            "create it, or correct networkAttachmentName and networkAttachmentNamespace".into(),
        ),
        Err(error) => Finding::Skipped(format!("NetworkAttachmentDefinition {namespace}/{name}: {error}")),
    }];
    for pod in pods(client, proxy).await {
        let networks = pod.annotations().get(NETWORK_STATUS).cloned().unwrap_or_default();
        found.push(if networks.contains(&format!("\"{namespace}/{name}\"")) {
            Finding::Good(format!("pod {} is attached to {namespace}/{name}", pod.name_any()))
        } else {
            Finding::Bad(
                format!("pod {} is not attached to {namespace}/{name}", pod.name_any()),
                format!("its annotation {NETWORK_STATUS} does not name it: see whether Multus runs, and the pod's Events"),
            )
        });
    }
    found
}

/// Whether the proxy's service account may read what it needs in the namespaces whose grants permit its backends.
pub(super) async fn access(client: &Client, proxy: &ProxyServer, services: &Services) -> Vec<Finding> {
    let own = proxy.namespace().unwrap_or_default();
    let Some(Ok(Some(deployment))) = deployment(client, proxy).await else { return Vec::new() };
    let account = deployment
        .spec
        .and_then(|s| s.template.spec?.service_account_name)
        .unwrap_or_else(|| "default".into());
    let user = format!("system:serviceaccount:{own}:{account}");
    let mut asks = vec![("causeway.dev", "proxyservers", own.clone())];
    let service = |backend: &Backend| ServiceRef {
        namespace: backend.target_namespace.clone(),
        name: backend.target_service.clone(),
    };
    let wanted = proxy.spec.backends.iter().map(service);
    let permitted = wanted.filter(|service| services.permit(references::users(&own), service));
    let namespaces: BTreeSet<String> = permitted.map(|service| service.namespace).collect();
    for namespace in namespaces {
        asks.push(("", "services", namespace.clone()));
        asks.push(("discovery.k8s.io", "endpointslices", namespace.clone()));
    }
    let mut found = Vec::new();
    for (group, resource, namespace) in asks {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.clone()),
                resource_attributes: Some(ResourceAttributes {
                    group: Some(group.into()),
                    resource: Some(resource.into()),
                    verb: Some("watch".into()),
                    namespace: Some(namespace.clone()),
                    name: (resource == "proxyservers").then(|| proxy.name_any()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let what = format!("{user} may watch {resource} in namespace {namespace}");
        found.push(match Api::all(client.clone()).create(&PostParams::default(), &review).await {
            Ok(review) if review.status.as_ref().is_some_and(|s| s.allowed) => Finding::Good(what),
            Ok(_) => Finding::Bad(
                what.replace(" may ", " may not "),
                "the operator grants it: see whether the Role and RoleBinding are there".into(),
            ),
            Err(error) => Finding::Skipped(format!("{user}: its rights can't be asked for: {error}")),
        });
    }
    found
}
