//! What is left of an installation when its objects are gone, and waiting until that is gone, too.

use std::time::Instant;

use anyhow::bail;
use causeway_api::names;
use causeway_translate::gateway::CONTROLLER_NAME;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{LOOK, force};
use crate::parts::installation::{OPERATOR_LABEL, Piece, is_missing};
use crate::parts::refusal;

/// Kinds of what the operator makes; most of it goes with its owner, but not what is in other namespaces.
const SWEPT: [(&str, &str); 14] = [
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Pod"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    // Of hostnames, in whatever namespace their gateways are.
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("gateway.networking.k8s.io/v1", "ListenerSet"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
    ("gateway.k8s.aws/v1beta1", "LoadBalancerConfiguration"),
];

fn kind(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

async fn list(
    client: &Client,
    kind: &ApiResource,
    params: &ListParams,
) -> anyhow::Result<Vec<DynamicObject>> {
    match Api::<DynamicObject>::all_with(client.clone(), kind).list(params).await {
        Ok(list) => Ok(list.items),
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        Err(error) => bail!("can't list {}: {}", kind.plural, refusal::words(&error)),
    }
}

/// Classes of Gateways that are Causeway's.
async fn classes(client: &Client) -> anyhow::Result<Vec<DynamicObject>> {
    let all =
        list(client, &kind("gateway.networking.k8s.io/v1", "GatewayClass"), &ListParams::default()).await?;
    Ok(all.into_iter().filter(|class| class.data["spec"]["controllerName"] == CONTROLLER_NAME).collect())
}

/// People's Gateways of these classes. Those of hostnames are the operator's own.
pub(super) async fn gateways(client: &Client) -> anyhow::Result<Vec<String>> {
    let classes: Vec<String> = classes(client).await?.iter().map(ResourceExt::name_any).collect();
    let of_class = |gateway: &&DynamicObject| {
        let class = gateway.data["spec"]["gatewayClassName"].as_str().unwrap_or_default();
        classes.iter().any(|known| known == class)
    };
    Ok(peoples_gateways(client).await?.iter().filter(of_class).map(name_of_gateway).collect())
}

/// People's Gateways in this namespace, of whatever class.
pub(super) async fn gateways_in(client: &Client, namespace: &str) -> anyhow::Result<Vec<String>> {
    let all = peoples_gateways(client).await?;
    let inside = all.iter().filter(|gateway| gateway.namespace().as_deref() == Some(namespace));
    Ok(inside.map(name_of_gateway).collect())
}

async fn peoples_gateways(client: &Client) -> anyhow::Result<Vec<DynamicObject>> {
    let all = list(client, &kind("gateway.networking.k8s.io/v1", "Gateway"), &ListParams::default()).await?;
    let is_ours = |gateway: &DynamicObject| {
        gateway.labels().get(names::LABEL_MANAGED_BY).map(String::as_str) == Some(names::MANAGED_BY)
    };
    Ok(all.into_iter().filter(|gateway| !is_ours(gateway)).collect())
}

fn name_of_gateway(gateway: &DynamicObject) -> String {
    format!("{}/{}", gateway.namespace().unwrap_or_default(), gateway.name_any())
}

/// Where Helm keeps what it knows of the release.
pub(super) async fn helm_releases(client: &Client, namespace: &str) -> anyhow::Result<Vec<Piece>> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let kept = ListParams::default().labels("owner=helm");
    let found = match api.list_metadata(&kept).await {
        Ok(found) => found.items,
        Err(error) => bail!("can't list secrets: {}", refusal::words(&error)),
    };
    let release = operators_release(client, namespace).await;
    let ours =
        found.into_iter().filter(|one| release.is_some() && one.labels().get("name") == release.as_ref());
    Ok(ours.map(|one| Piece::named("v1", "Secret", Some(namespace), &one.name_any())).collect())
}

async fn operators_release(client: &Client, namespace: &str) -> Option<String> {
    let operator =
        Piece::named("apps/v1", "Deployment", Some(namespace), crate::parts::installation::OPERATOR);
    let found = operator.get(client).await.ok()??;
    found.annotations().get("meta.helm.sh/release-name").cloned()
}

pub(super) async fn operator_is_gone(
    client: &Client,
    namespace: &str,
    deadline: Instant,
) -> anyhow::Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    loop {
        let left = match api.list_metadata(&ListParams::default().labels(OPERATOR_LABEL)).await {
            Ok(left) => left.items,
            Err(error) => bail!("can't list pods: {}", refusal::words(&error)),
        };
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let names: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
            bail!("the operator's pods do not end: {}; is their node there?", names.join(", "));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What the operator made, by its label.
async fn made(client: &Client) -> anyhow::Result<Vec<(Piece, DynamicObject)>> {
    let ours = ListParams::default().labels(&format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY));
    let mut made = Vec::new();
    for (version, name) in SWEPT {
        for object in list(client, &kind(version, name), &ours).await? {
            let piece = Piece::named(version, name, object.namespace().as_deref(), &object.name_any());
            made.push((piece, object));
        }
    }
    Ok(made)
}

/// Removes it, and says what somebody holds: that goes when he lets go of it.
pub(super) async fn sweep(client: &Client) -> anyhow::Result<Vec<String>> {
    for (piece, _) in made(client).await? {
        piece.delete(client).await?;
    }
    let left = made(client).await?;
    let held = left.iter().filter(|(_, object)| !object.finalizers().is_empty());
    Ok(held.map(|(piece, object)| format!("{piece}: held by {}", object.finalizers().join(", "))).collect())
}

/// The class that the operator made, if no Gateway is of it. Its finalizer is for as long as there are some.
pub(super) async fn remove_class(client: &Client) -> anyhow::Result<()> {
    let gateways = gateways(client).await?;
    for class in classes(client).await? {
        // Nobody but the operator has ever written to it; what it creates without applying is from somebody unknown.
        let writers = class.metadata.managed_fields.iter().flatten().filter_map(|one| one.manager.as_deref());
        let is_made = class.name_any() == names::GATEWAY_CLASS
            && writers
                .into_iter()
                .all(|writer| writer.starts_with(names::FIELD_MANAGER) || writer == "unknown");
        if !is_made || !gateways.is_empty() {
            continue;
        }
        let piece = Piece::named("gateway.networking.k8s.io/v1", "GatewayClass", None, &class.name_any());
        piece.delete(client).await?;
        release(client, &piece).await?;
    }
    Ok(())
}

/// Takes all finalizers from an object that is being deleted.
async fn release(client: &Client, piece: &Piece) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    match piece.api(client).patch(&piece.name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => bail!("can't let go of {piece}: {}", refusal::words(&error)),
    }
}

/// Removes the definitions, and with them what is left of their objects; waits until they are gone.
pub(super) async fn remove_definitions(
    client: &Client,
    by_force: bool,
    deadline: Instant,
) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let ours = causeway_api::crds();
    for definition in &ours {
        let name = definition.name_any();
        if by_force {
            let resource = kind(names::API_VERSION, &definition.spec.names.kind);
            let resource = ApiResource { plural: definition.spec.names.plural.clone(), ..resource };
            force::let_go_of_kind(client, &resource).await?;
        }
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => bail!("can't delete the definition {name}: {}", refusal::words(&error)),
        }
    }
    for definition in &ours {
        let name = definition.name_any();
        loop {
            match api.get_metadata_opt(&name).await {
                Ok(None) => break,
                Ok(Some(_)) if Instant::now() < deadline => tokio::time::sleep(LOOK).await,
                Ok(Some(_)) => bail!(
                    "the definition {name} waits for objects of it that somebody holds: `kubectl get {name} -A` shows them; --force lets go of them"
                ),
                Err(error) => bail!("can't look at {name}: {}", refusal::words(&error)),
            }
        }
    }
    Ok(())
}

pub(super) async fn namespace_is_gone(
    client: &Client,
    piece: &Piece,
    deadline: Instant,
) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    loop {
        let found = match api.get_opt(&piece.name).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(error) => bail!("can't look at {piece}: {}", refusal::words(&error)),
        };
        if Instant::now() >= deadline {
            let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let why: Vec<&str> = conditions
                .filter(|one| one.status == "True")
                .filter_map(|one| one.message.as_deref())
                .collect();
            bail!("{piece} is still being deleted: {}", why.join("; "));
        }
        tokio::time::sleep(LOOK).await;
    }
}
