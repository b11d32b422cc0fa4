//! The objects that were reconciled since the start, so that an event of the runtime wakes the ones that it concerns.

use std::{collections::HashMap, sync::Mutex};

use causeway_api::ContainerNetwork;
use causeway_base::lock::lock;
use kube::runtime::reflector::ObjectRef;

/// Objects by UID.
#[derive(Default)]
pub(crate) struct TrackedObjects(Mutex<HashMap<String, Entry>>);

struct Entry {
    object: ObjectRef<ContainerNetwork>,
    network: String,
}

impl TrackedObjects {
    /// An object, and the name of its network in the runtime.
    pub(crate) fn insert(&self, object: &ContainerNetwork, network: &str) {
        let entry = Entry { object: ObjectRef::from_obj(object), network: network.to_owned() };
        lock(&self.0).insert(super::uid(object).to_owned(), entry);
    }

    /// It is gone.
    pub(crate) fn remove(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }

    /// Whether the object of this UID was reconciled and is not gone.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        lock(&self.0).contains_key(uid)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<ObjectRef<ContainerNetwork>> {
        lock(&self.0).values().map(|entry| entry.object.clone()).collect()
    }

    /// Those of the network of this name.
    pub(crate) fn of(&self, network: &str) -> Vec<ObjectRef<ContainerNetwork>> {
        let entries = lock(&self.0);
        entries.values().filter(|entry| entry.network == network).map(|entry| entry.object.clone()).collect()
    }
}
