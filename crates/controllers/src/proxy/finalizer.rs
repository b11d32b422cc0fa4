//! The finalizer of a `ProxyServer` that has objects in other namespaces. Added before the first of them is made,
//! removed after the last of them is gone.

use causeway_api::{ProxyServer, names};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::error::Error;

/// Whether the object waits for its clean-up.
pub fn is_on(proxy: &ProxyServer) -> bool {
    proxy.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER_PROXY)
}

/// Adds and removes the finalizer.
pub struct Finalizer {
    client: Client,
}

impl Finalizer {
    /// One that writes with `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Adds it, next to those of others; false when the object is gone.
    pub async fn add(&self, proxy: &ProxyServer) -> Result<bool, Error> {
        let mut finalizers = proxy.finalizers().to_vec();
        finalizers.push(names::FINALIZER_PROXY.to_owned());
        self.replace(proxy, &finalizers).await
    }

    /// Removes it, and lets the object go.
    pub async fn remove(&self, proxy: &ProxyServer) -> Result<(), Error> {
        let mut finalizers = proxy.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != names::FINALIZER_PROXY);
        self.replace(proxy, &finalizers).await.map(drop)
    }

    async fn replace(&self, proxy: &ProxyServer, finalizers: &[String]) -> Result<bool, Error> {
        let name = proxy.name_any();
        let api = Api::<ProxyServer>::namespaced(self.client.clone(), &proxy.namespace().unwrap_or_default());
        let seen = match proxy.finalizers() {
            [] => Value::Null,
            seen => json!(seen),
        };
        // The test refuses the change when someone else has changed the list since it was read, and the uid keeps it
        // off a namesake; the next look at the object tries again.
        let patch = serde_json::from_value(json!([
            {"op": "test", "path": "/metadata/uid", "value": proxy.metadata.uid},
            {"op": "test", "path": "/metadata/finalizers", "value": seen},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]))
        .expect("a list of well-formed operations");
        match api.patch(&name, &PatchParams::default(), &Patch::<()>::Json(patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(source) => Err(Error::Finalizer { source }),
        }
    }
}
