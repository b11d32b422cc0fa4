//! The objects of the server: a durable map with one revision counter, and the recent history that watches read.
//!
//! One committer thread orders all writes, makes them durable in groups and only then shows them to readers, so a
//! reader never sees what a crash could take back.

mod collection;
mod committer;
mod disk;
mod watcher;

#[cfg(test)]
mod tests;

pub(crate) use collection::{Change, ChangeKind, Compacted, frame};
pub(crate) use committer::WriteError;
pub(crate) use disk::OpenError;
pub(crate) use watcher::Watcher;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use causeway_base::lock::{read, write};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::object;
use collection::Collection;
use committer::{Committer, Request};

/// Changes of all collections that a subscriber may lag behind before it has to look at everything again.
const FEED_CAPACITY: usize = 4096;
/// Writes that may wait for the committer; past it writers wait their turn.
const QUEUE_CAPACITY: usize = 1024;

/// Which collection an object belongs to, whatever the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupResource {
    pub group: Arc<str>,
    pub plural: Arc<str>,
}

impl GroupResource {
    pub(crate) fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub resource: GroupResource,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub(crate) fn new(resource: &GroupResource, namespace: &str, name: &str) -> Self {
        Self { resource: resource.clone(), namespace: namespace.into(), name: name.into() }
    }
}

/// One object at one revision. The JSON text is kept rather than a tree: lists and watches send it as it is.
#[derive(Debug)]
pub(crate) struct Stored {
    pub key: Key,
    pub revision: u64,
    pub json: Bytes,
    /// Where in `json` the members after the type begin: items of lists leave it out.
    untyped_at: usize,
    pub labels: BTreeMap<String, String>,
}

impl Stored {
    /// Serialises an object, with its type in front.
    pub(crate) fn new(key: Key, mut value: Value, revision: u64) -> Self {
        object::metadata_mut(&mut value)
            .insert("resourceVersion".into(), Value::String(revision.to_string()));
        let labels = object::labels(&value);
        let mut json = String::from("{");
        if let Some(members) = value.as_object_mut() {
            for name in ["apiVersion", "kind"] {
                if let Some(member) = members.remove(name) {
                    let _ = write!(json, "\"{name}\":{member},");
                }
            }
        }
        let untyped_at = json.len();
        // Never empty: there is at least the metadata.
        json.push_str(value.to_string().strip_prefix('{').unwrap_or_default());
        Self { key, revision, json: json.into(), untyped_at, labels }
    }

    /// The object's text without `apiVersion` and `kind`, but for the opening brace.
    pub(crate) fn untyped(&self) -> &[u8] {
        &self.json[self.untyped_at..]
    }

    /// The object as a tree, in its storage version.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("the store holds only JSON it serialised itself")
    }
}

/// A collection at one revision, in key order.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub revision: u64,
    pub items: Vec<Arc<Stored>>,
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expect {
    Absent,
    Revision(u64),
}

/// What a write leaves behind.
#[derive(Debug)]
pub(crate) enum Mutation {
    Put(Value),
    /// Removes the object; the value is its last state, which watchers are shown.
    Delete(Value),
}

#[derive(Default)]
struct State {
    revision: u64,
    /// The revision at the start; no history reaches behind it.
    base: u64,
    collections: HashMap<GroupResource, Collection>,
}

/// The store. Cheap to share; the last handle dropped stops the committer.
pub(crate) struct Store {
    state: Arc<RwLock<State>>,
    /// writers → committer
    request_tx: mpsc::Sender<Request>,
    feed_tx: broadcast::Sender<Arc<Change>>,
}

impl Store {
    /// Opens the store in `file`, or keeps everything in memory without one.
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, OpenError> {
        let mut state = State::default();
        let disk = match file {
            None => None,
            Some(path) => {
                let (disk, revision, objects) = disk::Disk::open(path)?;
                state.revision = revision;
                state.base = revision;
                for object in objects {
                    let collection = state
                        .collections
                        .entry(object.key.resource.clone())
                        .or_insert_with(|| Collection::new(revision));
                    collection.load(Arc::new(object));
                }
                Some(disk)
            }
        };
        let state = Arc::new(RwLock::new(state));
        let (request_tx, request_rx) = mpsc::channel(QUEUE_CAPACITY);
        let (feed_tx, _) = broadcast::channel(FEED_CAPACITY);
        Committer::spawn(state.clone(), disk, request_rx, feed_tx.clone());
        Ok(Self { state, request_tx, feed_tx })
    }

    /// The revision of the newest write that readers see.
    pub(crate) fn revision(&self) -> u64 {
        self.read(|state| state.revision)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.read(|state| state.collections.get(&key.resource)?.get(key).cloned())
    }

    pub(crate) fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Snapshot {
        self.read(|state| Snapshot {
            revision: state.revision,
            items: state.collections.get(resource).map(|c| c.list(namespace)).unwrap_or_default(),
        })
    }

    /// The collection as it was at `revision`, while its history reaches that far.
    pub(crate) fn list_at(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Snapshot, Compacted> {
        self.read(|state| {
            let items = match state.collections.get(resource) {
                Some(collection) => collection.list_at(namespace, revision)?,
                None if revision < state.base => {
                    return Err(Compacted { asked: revision, oldest: state.base });
                }
                None => Vec::new(),
            };
            Ok(Snapshot { revision, items })
        })
    }

    /// The revision of the last change in a collection; zero if there was none since the start.
    pub(crate) fn collection_revision(&self, resource: &GroupResource) -> u64 {
        self.read(|state| state.collections.get(resource).map_or(0, Collection::last_revision))
    }

    /// Collections that hold at least one object.
    pub(crate) fn populated(&self) -> Vec<GroupResource> {
        self.read(|state| {
            state.collections.iter().filter(|(_, c)| !c.is_empty()).map(|(r, _)| r.clone()).collect()
        })
    }

    /// Changes of one collection after `from`; `None` starts at the present.
    pub(crate) fn watch(&self, resource: &GroupResource, from: Option<u64>) -> Result<Watcher, Compacted> {
        let mut state = write(&self.state);
        let State { revision, base, .. } = *state;
        let collection = state.collections.entry(resource.clone()).or_insert_with(|| Collection::new(base));
        let from = from.unwrap_or(revision);
        collection.check_history(from)?;
        Ok(Watcher::new(self.state.clone(), resource.clone(), from, collection.subscribe()))
    }

    /// Every change of every collection from now on; a subscriber that lags must look at everything again.
    pub(crate) fn feed(&self) -> broadcast::Receiver<Arc<Change>> {
        self.feed_tx.subscribe()
    }

    /// Writes one object; returns when it is durable and visible.
    pub(crate) async fn write(
        &self,
        key: Key,
        expect: Expect,
        mutation: Mutation,
    ) -> Result<Arc<Stored>, WriteError> {
        let (answer_tx, answer_rx) = oneshot::channel();
        let request = Request { key, expect, mutation, answer_tx };
        self.request_tx.send(request).await.map_err(|_| WriteError::Closed)?;
        answer_rx.await.map_err(|_| WriteError::Closed)?
    }

    fn read<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&read(&self.state))
    }
}
