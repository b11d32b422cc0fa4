//! Who owns whom, by uid, kept from the change feed.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::object;
use crate::rest::delete::{FOREGROUND, ORPHAN};
use crate::store::{Change, ChangeKind, Key, Store};

#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<Key, Node>,
    by_uid: HashMap<String, Key>,
    dependents: HashMap<String, HashSet<Key>>,
}

/// One object.
pub(super) struct Node {
    pub uid: String,
    pub owners: Vec<OwnerReference>,
    /// `foregroundDeletion` or `orphan`, once the object is being deleted.
    pub waits_for: Option<&'static str>,
    pub terminating: bool,
}

/// One owner reference.
pub(super) struct OwnerReference {
    pub uid: String,
    pub blocks: bool,
}

impl Graph {
    pub(super) fn read(store: &Store) -> Self {
        let mut graph = Self::default();
        for resource in store.populated() {
            for stored in store.list(&resource, None).items {
                graph.insert(stored.key.clone(), &stored.value());
            }
        }
        graph
    }

    pub(super) fn keys(&self) -> HashSet<Key> {
        self.nodes.keys().cloned().collect()
    }

    pub(super) fn node(&self, key: &Key) -> Option<&Node> {
        self.nodes.get(key)
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(self.by_uid.get(uid)?)
    }

    pub(super) fn dependents_of<'a>(&'a self, uid: &str) -> impl Iterator<Item = (&'a Key, &'a Node)> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|key| Some((key, self.nodes.get(key)?)))
    }

    /// Takes a change in and adds the objects it may concern to `dirty`.
    pub(super) fn note(&mut self, change: &Change, dirty: &mut HashSet<Key>) {
        let key = &change.object.key;
        let removed = self.remove(key);
        if change.kind != ChangeKind::Deleted {
            self.insert(key.clone(), &change.object.value());
            let node = self.nodes.get(key);
            if node.is_some_and(|n| !n.owners.is_empty() || n.waits_for.is_some()) {
                dirty.insert(key.clone());
            }
            // Dependents that blocked a foreground deletion may have changed their mind.
            if let Some(node) = node.filter(|n| n.terminating) {
                dirty.extend(node.owners.iter().filter_map(|o| self.by_uid.get(&o.uid)).cloned());
            }
            return;
        }
        let Some(node) = removed else { return };
        dirty.extend(self.dependents.get(&node.uid).into_iter().flatten().cloned());
        // An owner may have waited for this one in the foreground.
        dirty.extend(node.owners.iter().filter_map(|o| self.by_uid.get(&o.uid)).cloned());
    }

    fn insert(&mut self, key: Key, value: &Value) {
        let owners: Vec<OwnerReference> = value["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|o| OwnerReference {
                uid: o["uid"].as_str().unwrap_or_default().to_owned(),
                blocks: o["blockOwnerDeletion"].as_bool().unwrap_or(false),
            })
            .collect();
        for owner in &owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        let terminating = object::is_terminating(value);
        let finalizers = object::finalizers(value);
        let waits_for = [FOREGROUND, ORPHAN].into_iter().find(|f| terminating && finalizers.contains(f));
        let uid = object::meta(value, "uid").to_owned();
        self.by_uid.insert(uid.clone(), key.clone());
        self.nodes.insert(key, Node { uid, owners, waits_for, terminating });
    }

    fn remove(&mut self, key: &Key) -> Option<Node> {
        let node = self.nodes.remove(key)?;
        self.by_uid.remove(&node.uid);
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(node)
    }
}
