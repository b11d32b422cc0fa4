//! What is in a namespace that goes with it and belongs to people: neither to the installation, nor to the cluster, which gives
//! every namespace something.

use std::collections::BTreeMap;

use anyhow::bail;
use causeway_api::names;
use futures::future::join_all;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};

use super::installation::{Piece, is_missing};
use super::refusal;

/// Groups whose objects are looked at and not kept: measurements, events, what can be installed.
const VIEWS: [&str; 5] = [
    "metrics.k8s.io",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
    "packages.operators.coreos.com",
    "events.k8s.io",
];
/// What follows from other objects.
const FOLLOWING: [&str; 2] = ["Event", "Endpoints"];
/// What a cluster, or OpenShift, puts into every namespace.
const GIVEN: [(&str, &str); 5] = [
    ("ServiceAccount", "default"),
    ("ConfigMap", "kube-root-ca.crt"),
    ("ConfigMap", "openshift-service-ca.crt"),
    ("ServiceAccount", "builder"),
    ("ServiceAccount", "deployer"),
];

/// Names of what is in a namespace and not among `ours`.
pub(crate) async fn strangers(
    client: &Client,
    namespace: &str,
    ours: &[Piece],
) -> anyhow::Result<Vec<String>> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        Err(error) => bail!("can't ask which kinds there are: {}", refusal::words(&error)),
    };
    let kinds: Vec<ApiResource> = discovery
        .groups()
        .filter(|group| group.name() != names::GROUP && !VIEWS.contains(&group.name()))
        .flat_map(kube::discovery::ApiGroup::resources_by_stability)
        .filter(|(_, about)| about.scope == Scope::Namespaced && about.supports_operation(verbs::LIST))
        .map(|(kind, _)| kind)
        .filter(|kind| !FOLLOWING.contains(&kind.kind.as_str()))
        .collect();
    let found = join_all(kinds.iter().map(|kind| inside(client, namespace, kind, ours))).await;
    let mut found: Vec<String> = found.into_iter().collect::<anyhow::Result<Vec<_>>>()?.concat();
    found.sort();
    Ok(found)
}

async fn inside(
    client: &Client,
    namespace: &str,
    kind: &ApiResource,
    ours: &[Piece],
) -> anyhow::Result<Vec<String>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
    let list = match api.list_metadata(&ListParams::default()).await {
        Ok(list) => list.items,
        // Some can be listed by their discovery, and by nobody.
        Err(kube::Error::Api(answer)) if answer.code == 405 => Vec::new(),
        Err(error) if is_missing(&error) => Vec::new(),
        Err(error) => {
            bail!("can't see what is in namespace {namespace}: {}: {}", kind.plural, refusal::words(&error))
        }
    };
    let is_ours = |name: &str| {
        ours.iter().any(|piece| {
            piece.kind() == kind.kind && piece.namespace.as_deref() == Some(namespace) && piece.name == name
        })
    };
    let strange = list.iter().filter(|one| is_strange(&kind.kind, one) && !is_ours(&one.name_any()));
    Ok(strange.map(|one| format!("{} {}", kind.kind, one.name_any())).collect())
}

fn is_strange(kind: &str, object: &PartialObjectMeta<DynamicObject>) -> bool {
    let name = object.name_any();
    // It goes with its owner, which is looked at itself; or it goes already.
    if !object.owner_references().is_empty() || object.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let is_given = GIVEN.contains(&(kind, name.as_str()))
        || (kind == "RoleBinding" && name.starts_with("system:"))
        || (kind == "Secret" && object.annotations().contains_key("kubernetes.io/service-account.name"));
    let is_lease = kind == "Lease" && name == names::LEADER_LEASE;
    !is_given && !is_lease && !is_labelled(object.labels())
}

/// Whether an object says that it is of the installation, or was made by its operator.
fn is_labelled(labels: &BTreeMap<String, String>) -> bool {
    let is = |label: &str, value: &str| labels.get(label).is_some_and(|found| found == value);
    is(names::LABEL_PART_OF, names::PART_OF)
        || is(names::LABEL_MANAGED_BY, names::MANAGED_BY)
        || is(names::LABEL_MANAGED_BY, names::INSTALLER)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_every_namespace_has_is_nobodys() {
        let is_strange = |kind: &str, metadata: Value| {
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
            is_strange(kind, &serde_json::from_value(object).unwrap())
        };
        let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}]);
        for (kind, metadata) in [
            ("ServiceAccount", json!({"name": "default"})),
            ("ConfigMap", json!({"name": "kube-root-ca.crt"})),
            ("Lease", json!({"name": "causeway-operator"})),
            ("ReplicaSet", json!({"name": "web-1", "ownerReferences": owner})),
            ("Secret", json!({"name": "a", "labels": {"app.kubernetes.io/managed-by": "causeway"}})),
            ("Role", json!({"name": "a", "labels": {"app.kubernetes.io/part-of": "causeway"}})),
        ] {
            assert!(!is_strange(kind, metadata), "{kind}");
        }
        for (kind, metadata) in [
            ("ConfigMap", json!({"name": "default"})),
            ("Deployment", json!({"name": "web"})),
            ("PersistentVolumeClaim", json!({"name": "data", "labels": {"app": "web"}})),
            ("Lease", json!({"name": "somebodys"})),
        ] {
            assert!(is_strange(kind, metadata), "{kind}");
        }
    }
}
