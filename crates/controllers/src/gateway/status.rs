//! Writes the statuses that differ: each as a whole, in one request, on the very version that it was made from, so that what
//! others have written since is never lost. Who was quicker brings the next try with what he wrote.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use causeway_base::lock::lock;
use causeway_translate::gateway::{
    Picture,
    kinds::{ObjectRef, RouteKind},
    picture::Status,
};
use futures::{StreamExt as _, stream};
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Map, Value, json};

use crate::framework::{
    children::{ChildKind, Children, dynamic_api},
    error::Error,
    kinds::{
        BACKEND_TLS_POLICY, GATEWAY, GATEWAY_CLASS, GATEWAY_PARAMETERS, GRPC_ROUTE, HTTP_ROUTE, LISTENER_SET,
        TCP_ROUTE, TLS_ROUTE, TRAFFIC_POLICY, UDP_ROUTE,
    },
};

/// Objects that are written at the same time.
const AT_ONCE: usize = 16;

/// An object, by its kind.
type Key = (&'static str, ObjectRef);

/// Writes statuses.
pub(crate) struct Statuses {
    client: Client,
    /// The version of each object that was written to and not seen since: what it says now is not known.
    ahead: Mutex<HashMap<Key, (ChildKind, String)>>,
}

impl Statuses {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, ahead: Mutex::default() }
    }

    /// Writes what differs.
    ///
    /// # Errors
    /// When one could not be written, though all others were tried.
    pub(crate) async fn write(&self, picture: &Picture, children: &Children) -> Result<(), Error> {
        lock(&self.ahead).retain(|(_, at), (kind, version)| {
            let object = children.get(*kind, &at.namespace, &at.name);
            object.is_some_and(|object| object.metadata.resource_version.as_ref() == Some(version))
        });
        let mut changes = Vec::new();
        for (kind, at, status) in all(picture).filter(|(_, _, status)| status.changed) {
            let Some(object) = children.get(kind, &at.namespace, &at.name) else { continue };
            let key = (kind.kind, at);
            if !lock(&self.ahead).contains_key(&key) {
                changes.push(self.replace(key, kind, object, &status.value, children));
            }
        }
        let written: Vec<Result<(), Error>> = stream::iter(changes).buffer_unordered(AT_ONCE).collect().await;
        written.into_iter().collect()
    }

    async fn replace(
        &self,
        key: Key,
        kind: ChildKind,
        object: Arc<DynamicObject>,
        status: &Value,
        children: &Children,
    ) -> Result<(), Error> {
        let Some(resource) = children.served(kind) else { return Ok(()) };
        let api = dynamic_api(self.client.clone(), &object.namespace().unwrap_or_default(), &resource);
        let patch = json!({
            "metadata": { "resourceVersion": object.metadata.resource_version },
            "status": replacing(object.data.get("status"), status),
        });
        match api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => {
                // A write that changes nothing makes no version, and so no watch will ever show another.
                if let Some(version) = object.resource_version()
                    && written.resource_version().as_ref() != Some(&version)
                {
                    lock(&self.ahead).insert(key, (kind, version));
                }
                Ok(())
            }
            // Gone, or changed by somebody: the watch brings that, and with it the next try.
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
            Err(source) => Err(Error::WriteStatus { source }),
        }
    }
}

/// A patch that makes `next` of `before`: what is not in it any more is taken away.
fn replacing(before: Option<&Value>, next: &Value) -> Value {
    let mut patch: Map<String, Value> = before
        .and_then(Value::as_object)
        .map(|before| before.keys().map(|key| (key.clone(), Value::Null)).collect())
        .unwrap_or_default();
    patch.extend(next.as_object().cloned().unwrap_or_default());
    Value::Object(patch)
}

/// Every status of a picture.
fn all(picture: &Picture) -> impl Iterator<Item = (ChildKind, ObjectRef, &Status)> {
    let classes = picture.classes.iter();
    let classes = classes.map(|(name, status)| (GATEWAY_CLASS, ObjectRef::new("", name.as_str()), status));
    let gateways = picture.gateways.iter();
    let gateways = gateways.map(|(at, gateway)| (GATEWAY, at.clone(), &gateway.status));
    let sets = picture.listener_sets.iter().map(|(at, status)| (LISTENER_SET, at.clone(), status));
    let routes = picture.routes.iter().map(|((kind, at), status)| (kind_of(*kind), at.clone(), status));
    let policies = picture.policies.iter().map(|(at, status)| (BACKEND_TLS_POLICY, at.clone(), status));
    let traffic = picture.traffic_policies.iter().map(|(at, status)| (TRAFFIC_POLICY, at.clone(), status));
    let parameters = picture.parameters.iter().map(|(at, status)| (GATEWAY_PARAMETERS, at.clone(), status));
    classes.chain(gateways).chain(sets).chain(routes).chain(policies).chain(traffic).chain(parameters)
}

fn kind_of(route: RouteKind) -> ChildKind {
    match route {
        RouteKind::Http => HTTP_ROUTE,
        RouteKind::Grpc => GRPC_ROUTE,
        RouteKind::Tls => TLS_ROUTE,
        RouteKind::Tcp => TCP_ROUTE,
        RouteKind::Udp => UDP_ROUTE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_any_more_is_taken_away() {
        let before = json!({"addresses": [{"value": "10.0.0.1"}], "conditions": []});
        let patch = replacing(Some(&before), &json!({"conditions": [1]}));
        assert_eq!(patch, json!({"addresses": null, "conditions": [1]}));
        assert_eq!(replacing(None, &json!({"parents": []})), json!({"parents": []}));
    }
}
