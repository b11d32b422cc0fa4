//! What is left of an installation when its objects are gone, and waiting until that is gone, too.

use std::time::Instant;

use anyhow::bail;
use causeway_api::names;
use causeway_chart::{INSTALLED_IN, TENANTS};
use causeway_translate::gateway::CONTROLLER_NAME;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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

/// Where Helm keeps what it knows of the release that these are of.
pub(super) async fn helm_releases(
    client: &Client,
    namespace: &str,
    pieces: &[Piece],
) -> anyhow::Result<Vec<Piece>> {
    let Some(release) = release_of(client, namespace, pieces).await? else { return Ok(Vec::new()) };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let kept = ListParams::default().labels(&format!("owner=helm,name={release}"));
    let found = match api.list_metadata(&kept).await {
        Ok(found) => found.items,
        Err(error) => bail!("can't list secrets: {}", refusal::words(&error)),
    };
    Ok(found.iter().map(|one| Piece::named("v1", "Secret", Some(namespace), &one.name_any())).collect())
}

/// The release that Helm says of one of them that it is part of. The operator may be gone, and the others not.
async fn release_of(client: &Client, namespace: &str, pieces: &[Piece]) -> anyhow::Result<Option<String>> {
    for piece in pieces.iter().filter(|piece| piece.namespace.as_deref() == Some(namespace)) {
        let Some(found) = piece.get(client).await? else { continue };
        let of = |annotation: &str| found.annotations().get(annotation);
        if of("meta.helm.sh/release-namespace").is_some_and(|place| place == namespace) {
            return Ok(of("meta.helm.sh/release-name").cloned());
        }
    }
    Ok(None)
}

/// What lets admins of namespaces have operators of their own, and is no part of an installation.
pub(super) async fn of_tenants(client: &Client) -> anyhow::Result<Vec<String>> {
    let label = format!("{}={},{INSTALLED_IN}={TENANTS}", names::LABEL_PART_OF, names::PART_OF);
    let roles = kind("rbac.authorization.k8s.io/v1", "ClusterRole");
    let found = list(client, &roles, &ListParams::default().labels(&label)).await?;
    let line = |role: &DynamicObject| {
        format!("ClusterRole {}: it is of deploy/tenants.yaml, for operators in namespaces", role.name_any())
    };
    Ok(found.iter().map(line).collect())
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

/// What the operator made, by its label, which the operator itself must have written: it is a word that others may use, too.
async fn made(client: &Client) -> anyhow::Result<Vec<(Piece, DynamicObject)>> {
    let ours = ListParams::default().labels(&format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY));
    let mut made = Vec::new();
    for (version, name) in SWEPT {
        let mut found = list(client, &kind(version, name), &ours).await?;
        found.retain(|object| is_labelled_by_us(&object.metadata));
        for object in found {
            let piece = Piece::named(version, name, object.namespace().as_deref(), &object.name_any());
            made.push((piece, object));
        }
    }
    Ok(made)
}

/// Whether it was the operator who said that the operator has made it.
pub(super) fn is_labelled_by_us(metadata: &ObjectMeta) -> bool {
    let label = format!("f:{}", names::LABEL_MANAGED_BY);
    let is_ours = |manager: &str| manager.starts_with(names::FIELD_MANAGER);
    metadata.managed_fields.iter().flatten().any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:metadata"]["f:labels"]);
        entry.manager.as_deref().is_some_and(is_ours)
            && fields.is_some_and(|fields| fields.get(&label).is_some())
    })
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
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => bail!("can't delete the definition {name}: {}", refusal::words(&error)),
        }
    }
    for definition in &ours {
        let name = definition.name_any();
        let resource = kind(names::API_VERSION, &definition.spec.names.kind);
        let resource = ApiResource { plural: definition.spec.names.plural.clone(), ..resource };
        loop {
            match api.get_metadata_opt(&name).await {
                Ok(None) => break,
                Ok(Some(_)) if Instant::now() < deadline => {
                    if by_force {
                        // Nothing new can come of a kind that goes.
                        force::let_go_of_kind(client, &resource).await?;
                    }
                    tokio::time::sleep(LOOK).await;
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_somebody_else_wrote_is_not_ours() {
        let by = |manager: &str, label: &str| -> ObjectMeta {
            let fields = json!({"f:metadata": {"f:labels": {format!("f:{label}"): {}}}});
            serde_json::from_value(json!({"name": "x", "managedFields": [
                {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields},
            ]}))
            .unwrap()
        };
        assert!(is_labelled_by_us(&by("causeway-proxy", names::LABEL_MANAGED_BY)));
        assert!(!is_labelled_by_us(&by("kubectl", names::LABEL_MANAGED_BY)));
        // An intercept changes what is somebody's.
        assert!(!is_labelled_by_us(&by("causeway-intercepts", "app")));
    }
}
