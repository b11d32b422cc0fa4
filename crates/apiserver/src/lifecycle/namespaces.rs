//! Namespaces: what each has from the start, and the emptying of those that are deleted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::edit::edit;
use crate::error::ApiError;
use crate::object;
use crate::rest::delete::{DeleteOptions, remove};
use crate::server::Server;
use crate::store::{Change, ChangeKind, Expect, GroupResource, Key, Mutation, WriteError};

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
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": namespace},
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
    let mut left = 0;
    for resource in listing.iter().filter(|r| r.namespaced && r.is_stored_form()) {
        let collection = GroupResource::new(&resource.group, &resource.plural);
        for object in server.store.list(&collection, Some(&namespace.name)).items {
            if !object::is_terminating(&object.value()) {
                match remove(server, resource, &object.key, &DeleteOptions::default()).await {
                    Ok(_) => {}
                    Err(error) if error.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
            left += usize::from(server.store.get(&object.key).is_some());
        }
    }
    if left > 0 {
        return Ok(());
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
