//! The objects of one resource and their recent changes, in revision order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::watch;

use super::{Key, Stored};

/// Changes kept per collection; a watcher that falls further behind has to list again.
const HISTORY_CHANGES: usize = 8192;
/// JSON kept alive by the history of one collection.
const HISTORY_BYTES: usize = 16 << 20;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub kind: ChangeKind,
    pub object: Arc<Stored>,
    pub previous: Option<Arc<Stored>>,
    frame: OnceLock<Bytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl ChangeKind {
    /// The `type` of a watch event.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// The history that was asked for is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub(crate) struct Compacted {
    pub asked: u64,
    pub oldest: u64,
}

impl Change {
    pub(crate) fn new(kind: ChangeKind, object: Arc<Stored>, previous: Option<Arc<Stored>>) -> Self {
        Self { kind, object, previous, frame: OnceLock::new() }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }

    /// The watch event's line in the storage version, built once for all watchers.
    pub(crate) fn frame(&self) -> Bytes {
        self.frame.get_or_init(|| frame(self.kind, &self.object.json)).clone()
    }

    fn weight(&self) -> usize {
        self.object.json.len()
    }
}

/// One line of a watch response.
pub(crate) fn frame(kind: ChangeKind, json: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(json.len() + 40);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_str().as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(json);
    line.put_slice(b"}\n");
    line.freeze()
}

type NamespacedName = (Arc<str>, Arc<str>);

pub(super) struct Collection {
    objects: BTreeMap<NamespacedName, Arc<Stored>>,
    history: VecDeque<Arc<Change>>,
    history_bytes: usize,
    /// Changes after this revision are all in `history`.
    floor: u64,
    /// Of the last change; zero if there was none since the start.
    last_revision: u64,
    revision_tx: watch::Sender<u64>,
}

impl Collection {
    pub(super) fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            history_bytes: 0,
            floor,
            last_revision: 0,
            revision_tx: watch::Sender::new(0),
        }
    }

    pub(super) fn load(&mut self, object: Arc<Stored>) {
        self.objects.insert(place(&object.key), object);
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(&place(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub(super) fn last_revision(&self) -> u64 {
        self.last_revision
    }

    pub(super) fn list(&self, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        range(&self.objects, namespace).cloned().collect()
    }

    /// Undoes, on a copy, the changes made after `revision`.
    pub(super) fn list_at(
        &self,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Arc<Stored>>, Compacted> {
        self.check_history(revision)?;
        if self.last_revision() <= revision {
            return Ok(self.list(namespace));
        }
        let mut objects = self.objects.clone();
        for change in self.history.iter().rev().take_while(|c| c.revision() > revision) {
            match &change.previous {
                Some(previous) => objects.insert(place(&previous.key), previous.clone()),
                None => objects.remove(&place(&change.object.key)),
            };
        }
        Ok(range(&objects, namespace).cloned().collect())
    }

    pub(super) fn apply(&mut self, change: Arc<Change>) {
        let place = place(&change.object.key);
        match change.kind {
            ChangeKind::Deleted => self.objects.remove(&place),
            _ => self.objects.insert(place, change.object.clone()),
        };
        self.last_revision = change.revision();
        self.history_bytes += change.weight();
        self.history.push_back(change);
        while self.history.len() > HISTORY_CHANGES || self.history_bytes > HISTORY_BYTES {
            let Some(oldest) = self.history.pop_front() else {
                break;
            };
            self.history_bytes -= oldest.weight();
            self.floor = oldest.revision();
        }
    }

    /// Tells watchers up to where they can read; used after the store's lock is released, since it wakes them all.
    pub(super) fn announcer(&self) -> watch::Sender<u64> {
        self.revision_tx.clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision_tx.subscribe()
    }

    pub(super) fn check_history(&self, from: u64) -> Result<(), Compacted> {
        if from < self.floor { Err(Compacted { asked: from, oldest: self.floor }) } else { Ok(()) }
    }

    pub(super) fn changes_after(&self, revision: u64) -> Result<Vec<Arc<Change>>, Compacted> {
        self.check_history(revision)?;
        let first = self.history.partition_point(|c| c.revision() <= revision);
        Ok(self.history.range(first..).cloned().collect())
    }
}

fn place(key: &Key) -> NamespacedName {
    (key.namespace.clone(), key.name.clone())
}

fn range<'a>(
    objects: &'a BTreeMap<NamespacedName, Arc<Stored>>,
    namespace: Option<&str>,
) -> Box<dyn Iterator<Item = &'a Arc<Stored>> + 'a> {
    match namespace {
        None => Box::new(objects.values()),
        Some(namespace) => {
            let namespace: Arc<str> = namespace.into();
            let start = Bound::Included((namespace.clone(), Arc::from("")));
            Box::new(
                objects
                    .range((start, Bound::Unbounded))
                    .take_while(move |((ns, _), _)| *ns == namespace)
                    .map(|(_, object)| object),
            )
        }
    }
}
