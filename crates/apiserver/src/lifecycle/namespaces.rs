//! Namespaces: what each has from the start, and the emptying of those that are deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::edit::edit;
use crate::error::ApiError;
use crate::object;
use crate::rest::delete::{DeleteOptions, remove, unasked};
use crate::server::Server;
use crate::store::{Change, ChangeKind, Expect, GroupResource, Key, Mutation, WriteError};

const CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
     such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

pub(super) fn concerns(_server: &Server, change: &Change) -> bool {
    let resource = &change.object.key.resource;
    match &*resource.plural {
        "namespaces" => resource.group.is_empty(),
        // What every namespace has comes back when it is deleted by hand, and the last object to go may be what a
        // deleted namespace waits for.
        _ => change.kind == ChangeKind::Deleted && !change.object.key.namespace.is_empty(),
    }
}

pub(super) async fn sweep(server: Arc<Server>) -> bool {
    let namespaces = server.store.list(&GroupResource::new("", "namespaces"), None).items;
    let mut done = true;
    for namespace in namespaces {
        let mutation = if object::is_terminating(&namespace.value()) {
            empty(&server, &namespace.key).await
        } else {
            furnish(&server, &namespace.key.name).await
        };
        if let Err(error) = mutation {
            tracing::warn!(namespace = &*namespace.key.name, %error, "a namespace could not be brought in order");
            done = false;
        }
    }
    done
}

/// The default ServiceAccount and the CA certificate.
async fn furnish(server: &Server, namespace: &str) -> Result<(), ApiError> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace},
    });
    let ca = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "kube-root-ca.crt", "namespace": namespace,
            "annotations": {"kubernetes.io/description": CA_DESCRIPTION},
        },
        "data": {"ca.crt": server.pki.ca_pem()},
    });
    put_missing(server, "serviceaccounts", account).await?;
    put_missing(server, "configmaps", ca).await
}

async fn put_missing(server: &Server, plural: &str, mut value: Value) -> Result<(), ApiError> {
    let key = Key::new(&GroupResource::new("", plural), object::namespace(&value), object::name(&value));
    if server.store.get(&key).is_some() {
        return Ok(());
    }
    let meta = object::metadata_mut(&mut value);
    meta.insert("uid".into(), json!(crate::rest::uid()));
    meta.insert("creationTimestamp".into(), json!(crate::rest::timestamp(jiff::Timestamp::now())));
    match server.store.write(key, Expect::Absent, Mutation::Put(value)).await {
        Ok(_) | Err(WriteError::Exists) => Ok(()),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}

/// Deletes everything in a namespace; lets it go once nothing is left.
async fn empty(server: &Server, namespace: &Key) -> Result<(), ApiError> {
    let listing = server.catalog.listing();
    let mut left = Remains::default();
    for resource in listing.iter().filter(|r| r.namespaced && r.is_stored_form()) {
        let collection = GroupResource::new(&resource.group, &resource.plural);
        for object in server.store.list(&collection, Some(&namespace.name)).items {
            if !object::is_terminating(&object.value()) {
                match remove(server, resource, &object.key, &DeleteOptions::default(), unasked).await {
                    Ok(_) => {}
                    Err(error) if error.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
            if let Some(stays) = server.store.get(&object.key) {
                left.count(&format!("{}.{}", resource.plural, resource.group), &stays.value());
            }
        }
    }
    if !left.resources.is_empty() {
        let conditions = left.conditions(&crate::rest::timestamp(jiff::Timestamp::now()));
        let told = edit(server, namespace, |value| tell(value, &conditions)).await;
        return told.map_err(|error| ApiError::internal(error.to_string()));
    }
    edit(server, namespace, |value| {
        let Some(list) = value["spec"]["finalizers"].as_array_mut() else { return false };
        let before = list.len();
        list.retain(|f| f != "kubernetes");
        list.len() != before
    })
    .await
    .map_err(|error| ApiError::internal(error.to_string()))
}

/// What keeps a namespace from going.
#[derive(Default)]
struct Remains {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Remains {
    fn count(&mut self, resource: &str, object: &Value) {
        *self.resources.entry(resource.to_owned()).or_default() += 1;
        for finalizer in object::finalizers(object) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }

    /// In the words and the order of Kubernetes, where people look for why a namespace does not go.
    fn conditions(&self, now: &str) -> Vec<Value> {
        let told = |items: &BTreeMap<String, usize>, word: &str| {
            let each = items.iter().map(|(name, count)| format!("{name} {word} {count} resource instances"));
            each.collect::<Vec<_>>().join(", ")
        };
        let resources = format!("Some resources are remaining: {}", told(&self.resources, "has"));
        let finalizers = format!(
            "Some content in the namespace has finalizers remaining: {}",
            told(&self.finalizers, "in")
        );
        let left = |some: bool, yes: (&'static str, String), no: (&'static str, &str)| {
            if some { ("True", yes.0, yes.1) } else { ("False", no.0, no.1.to_owned()) }
        };
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                ("False", "ResourcesDiscovered", "All resources successfully discovered".to_owned()),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned()),
            ),
            (
                "NamespaceDeletionContentFailure",
                (
                    "False",
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization".to_owned(),
                ),
            ),
            (
                "NamespaceContentRemaining",
                left(
                    !self.resources.is_empty(),
                    ("SomeResourcesRemain", resources),
                    ("ContentRemoved", "All content successfully removed"),
                ),
            ),
            (
                "NamespaceFinalizersRemaining",
                left(
                    !self.finalizers.is_empty(),
                    ("SomeFinalizersRemain", finalizers),
                    ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
                ),
            ),
        ]
        .map(|(kind, (status, reason, message))| {
            json!({
                "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
            })
        })
        .into()
    }
}

/// Writes conditions that say something new; the time of one whose state is the same stays.
fn tell(namespace: &mut Value, conditions: &[Value]) -> bool {
    let before = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut told = conditions.to_vec();
    for condition in &mut told {
        let same = |old: &&Value| old["type"] == condition["type"] && old["status"] == condition["status"];
        if let Some(old) = before.iter().find(same) {
            condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
        }
    }
    let changed = told != before;
    object::map_at(namespace, "status").insert("conditions".into(), told.into());
    changed
}
