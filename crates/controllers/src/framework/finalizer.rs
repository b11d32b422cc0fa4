//! A finalizer of one controller: added before the first thing is made that does not go with the object by itself,
//! removed after the last of them is gone.

use std::{fmt, marker::PhantomData};

use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::framework::{
    error::Error,
    scope::{Kind, api_of},
};

/// Adds and removes one finalizer of objects of one kind.
pub struct Finalizer<K> {
    client: Client,
    name: &'static str,
    kind: PhantomData<fn() -> K>,
}

impl<K> Finalizer<K>
where
    K: Kind + Clone + DeserializeOwned + fmt::Debug,
{
    /// The finalizer of this name, written with `client`.
    pub fn new(client: Client, name: &'static str) -> Self {
        Self { client, name, kind: PhantomData }
    }

    /// Whether the object waits for its clean-up.
    pub fn is_on(&self, object: &K) -> bool {
        object.finalizers().iter().any(|finalizer| finalizer == self.name)
    }

    /// Adds it, next to those of others; false when the object is gone.
    ///
    /// # Errors
    /// When the API server refuses, for one because the object has changed.
    pub async fn add(&self, object: &K) -> Result<bool, Error> {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.push(self.name.to_owned());
        self.replace(object, &finalizers).await
    }

    /// Removes it, and lets the object go.
    ///
    /// # Errors
    /// When the API server refuses, for one because the object has changed.
    pub async fn remove(&self, object: &K) -> Result<(), Error> {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != self.name);
        self.replace(object, &finalizers).await.map(drop)
    }

    async fn replace(&self, object: &K, finalizers: &[String]) -> Result<bool, Error> {
        let name = object.name_any();
        let api = api_of(self.client.clone(), object);
        let seen = match object.finalizers() {
            [] => Value::Null,
            seen => json!(seen),
        };
        // The test refuses the change when someone else has changed the list since it was read, and the uid keeps it
        // off a namesake; the next look at the object tries again.
        let patch = serde_json::from_value(json!([
            {"op": "test", "path": "/metadata/uid", "value": object.meta().uid},
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
