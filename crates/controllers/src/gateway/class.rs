//! Classes: the one that every cluster should have, and that none goes while Gateways are of it.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use causeway_api::names;
use causeway_translate::gateway::{CONTROLLER_NAME, Picture};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::framework::{
    apply,
    children::Children,
    error::Error,
    kinds::{GATEWAY, GATEWAY_CLASS},
};

/// Gateway API's own word for it.
const IN_USE: &str = "gateway-exists-finalizer.gateway.networking.k8s.io";

/// Writes classes.
pub(crate) struct Classes {
    client: Client,
    manager: &'static str,
    /// Whether the class was looked for: who removes it later wants it gone.
    has_class: AtomicBool,
}

impl Classes {
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager, has_class: AtomicBool::new(false) }
    }

    /// Makes the class that every cluster should have, if there is none of its name.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(crate) async fn make(&self, children: &Children) -> Result<(), Error> {
        let Some(resource) = children.served(GATEWAY_CLASS) else { return Ok(()) };
        if self.has_class.load(Ordering::Relaxed) {
            return Ok(());
        }
        if children.get(GATEWAY_CLASS, "", names::GATEWAY_CLASS).is_none() {
            let class = DynamicObject::new(names::GATEWAY_CLASS, &resource)
                .data(json!({ "spec": { "controllerName": CONTROLLER_NAME } }));
            let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
            let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
            match api.create(&params, &class).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                Err(source) => {
                    let (kind, name) = ("GatewayClass", names::GATEWAY_CLASS.to_owned());
                    let source = Box::new(apply::Error::Apply { kind, name, source });
                    return Err(Error::Objects { failed: 1, total: 1, source });
                }
            }
        }
        self.has_class.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Holds every class of ours that a Gateway is of, and lets the others go.
    ///
    /// # Errors
    /// When the API server refuses, but for a class that has changed: the watch brings that, and with it the next try.
    pub(crate) async fn hold(&self, picture: &Picture, children: &Children) -> Result<(), Error> {
        let Some(resource) = children.served(GATEWAY_CLASS) else { return Ok(()) };
        let gateways = children.all(GATEWAY);
        let class =
            |gateway: &DynamicObject| Some(gateway.data["spec"]["gatewayClassName"].as_str()?.to_owned());
        let used: BTreeSet<String> = gateways.iter().filter_map(|gateway| class(gateway)).collect();
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        for name in picture.classes.keys() {
            let Some(object) = children.get(GATEWAY_CLASS, "", name) else { continue };
            let Some(finalizers) = finalizers(&object, used.contains(name)) else { continue };
            let seen = if object.finalizers().is_empty() { Value::Null } else { json!(object.finalizers()) };
            let patch = json!([
                {"op": "test", "path": "/metadata/uid", "value": object.metadata.uid},
                {"op": "test", "path": "/metadata/finalizers", "value": seen},
                {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
            ]);
            let Ok(patch) = serde_json::from_value(patch) else { continue };
            match api.patch(name, &PatchParams::default(), &Patch::<()>::Json(patch)).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409 | 422) => {}
                Err(source) => return Err(Error::Finalizer { source }),
            }
        }
        Ok(())
    }
}

/// The finalizers that a class should have, if they are others than it has. None can be added to one that is going.
fn finalizers(class: &DynamicObject, is_used: bool) -> Option<Vec<String>> {
    let has = class.finalizers().iter().any(|finalizer| finalizer == IN_USE);
    let mut finalizers = class.finalizers().to_vec();
    match (has, is_used) {
        (true, false) => finalizers.retain(|finalizer| finalizer != IN_USE),
        (false, true) if class.metadata.deletion_timestamp.is_none() => finalizers.push(IN_USE.to_owned()),
        _ => return None,
    }
    Some(finalizers)
}
