//! What access control reads of the stored objects. A trait so that decisions can be tested on plain lists.

use serde_json::Value;

use crate::store::{GroupResource, Key, Store};

/// Read access to the stored objects, by group and plural name.
pub(crate) trait Objects: Send + Sync {
    /// One object; `namespace` is empty for cluster-scoped ones.
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// All objects of a collection, in all namespaces.
    fn objects(&self, group: &str, plural: &str) -> Vec<Value>;

    /// A number that differs whenever the collection has changed.
    fn last_change(&self, group: &str, plural: &str) -> u64;
}

impl Objects for Store {
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(&GroupResource::new(group, plural), namespace, name);
        self.get(&key).map(|stored| stored.value())
    }

    fn objects(&self, group: &str, plural: &str) -> Vec<Value> {
        let snapshot = self.list(&GroupResource::new(group, plural), None);
        snapshot.items.iter().map(|stored| stored.value()).collect()
    }

    fn last_change(&self, group: &str, plural: &str) -> u64 {
        self.collection_revision(&GroupResource::new(group, plural))
    }
}
