//! The objects of the server: a durable map with one revision counter, and the recent history that watches read.
//!
//! One committer thread orders all writes, makes them durable in groups and only then shows them to readers, so a
//! reader never sees what a crash could take back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

/// Which collection an object belongs to, whatever the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    pub group: Arc<str>,
    pub plural: Arc<str>,
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub resource: GroupResource,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// One object at one revision. The JSON text is kept rather than a tree: lists and watches send it as it is.
#[derive(Debug)]
pub struct Stored {
    pub key: Key,
    pub revision: u64,
    pub json: Bytes,
    pub labels: BTreeMap<String, String>,
}

impl Stored {
    /// The object as a tree, in its storage version.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("the store holds only JSON it serialised itself")
    }
}
