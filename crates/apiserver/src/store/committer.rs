//! The one thread that writes. It takes what has queued up, decides each write in order, makes the group durable
//! with one sync and then shows it to readers.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use causeway_base::lock::{read, write};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::collection::{Change, ChangeKind, Collection};
use super::disk::Disk;
use super::{Expect, GroupResource, Key, Mutation, State, Stored};

/// Writes that share one sync at most.
const GROUP_LIMIT: usize = 256;

/// One write on its way to the committer.
pub(super) struct Request {
    pub key: Key,
    pub expect: Expect,
    pub mutation: Mutation,
    pub answer_tx: oneshot::Sender<Result<Arc<Stored>, WriteError>>,
}

/// Why a write did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("the object exists")]
    Exists,
    #[error("the object was changed or removed meanwhile")]
    Stale,
    #[error("the store could not be written: {0}; check the disk's free space and permissions")]
    Disk(String),
    #[error("the server is stopping")]
    Closed,
}

pub(super) struct Committer {
    state: Arc<RwLock<State>>,
    disk: Option<Disk>,
    feed_tx: broadcast::Sender<Arc<Change>>,
}

type Answer = (oneshot::Sender<Result<Arc<Stored>, WriteError>>, Arc<Stored>);

impl Committer {
    pub(super) fn spawn(
        state: Arc<RwLock<State>>,
        disk: Option<Disk>,
        mut request_rx: mpsc::Receiver<Request>,
        feed_tx: broadcast::Sender<Arc<Change>>,
    ) {
        let mut committer = Self { state, disk, feed_tx };
        std::thread::Builder::new()
            .name("store".into())
            .spawn(move || {
                let mut group = Vec::with_capacity(GROUP_LIMIT);
                while let Some(first) = request_rx.blocking_recv() {
                    group.push(first);
                    while group.len() < GROUP_LIMIT {
                        match request_rx.try_recv() {
                            Ok(next) => group.push(next),
                            Err(_) => break,
                        }
                    }
                    committer.commit(group.drain(..));
                }
            })
            .expect("a thread can be started");
    }

    fn commit(&mut self, group: impl Iterator<Item = Request>) {
        let mut revision = read(&self.state).revision;
        let mut changes: Vec<Arc<Change>> = Vec::new();
        let mut answers: Vec<Answer> = Vec::new();
        let mut ahead: HashMap<Key, Option<Arc<Stored>>> = HashMap::new();
        for Request { key, expect, mutation, answer_tx } in group {
            let current = match ahead.get(&key) {
                Some(written) => written.clone(),
                None => self.current(&key),
            };
            match decide(&key, expect, mutation, current, revision + 1) {
                Err(error) => {
                    let _ = answer_tx.send(Err(error));
                }
                Ok(change) => {
                    revision += 1;
                    let live = (change.kind != ChangeKind::Deleted).then(|| change.object.clone());
                    ahead.insert(key, live);
                    answers.push((answer_tx, change.object.clone()));
                    changes.push(Arc::new(change));
                }
            }
        }
        if changes.is_empty() {
            return;
        }
        if let Some(disk) = &mut self.disk
            && let Err(error) = disk.commit(&changes, revision)
        {
            tracing::error!(%error, "the store could not be written");
            for (answer_tx, _) in answers {
                let _ = answer_tx.send(Err(WriteError::Disk(error.to_string())));
            }
            return;
        }
        let announcers = self.show(&changes, revision);
        for (answer_tx, object) in answers {
            let _ = answer_tx.send(Ok(object));
        }
        for announcer in announcers {
            announcer.send_replace(revision);
        }
        for change in changes {
            let _ = self.feed_tx.send(change);
        }
        self.tidy(revision);
    }

    /// Writes the log anew when most of it is history. Nothing is lost if that fails: the old one goes on.
    fn tidy(&mut self, revision: u64) {
        let Some(disk) = self.disk.as_mut().filter(|disk| disk.wants_rewrite()) else { return };
        let state = read(&self.state);
        let objects: Vec<Arc<Stored>> = state.collections.values().flat_map(|c| c.list(None)).collect();
        drop(state);
        if let Err(error) = disk.rewrite(revision, &objects) {
            tracing::warn!(%error, "the store's log could not be written anew; it will be tried again later");
        }
    }

    fn current(&self, key: &Key) -> Option<Arc<Stored>> {
        let state = read(&self.state);
        state.collections.get(&key.resource)?.get(key).cloned()
    }

    /// Lets readers see the changes; returns who tells the watchers of each changed collection.
    fn show(&self, changes: &[Arc<Change>], revision: u64) -> Vec<watch::Sender<u64>> {
        let mut state = write(&self.state);
        let mut announcers = Vec::new();
        let mut announced: Option<&GroupResource> = None;
        for change in changes {
            let resource = &change.object.key.resource;
            // A collection that was empty at the start has no history before it, like any other.
            if !state.collections.contains_key(resource) {
                let collection = Collection::new(state.base);
                state.collections.insert(resource.clone(), collection);
            }
            if let Some(collection) = state.collections.get_mut(resource) {
                collection.apply(change.clone());
                // Groups are mostly of one collection; to announce another one twice does no harm.
                if announced != Some(resource) {
                    announcers.push(collection.announcer());
                    announced = Some(resource);
                }
            }
        }
        state.revision = revision;
        announcers
    }
}

/// Decides one write against the state it would meet; `revision` is the one it gets.
fn decide(
    key: &Key,
    expect: Expect,
    mutation: Mutation,
    current: Option<Arc<Stored>>,
    revision: u64,
) -> Result<Change, WriteError> {
    match (expect, &current) {
        (Expect::Absent, Some(_)) => return Err(WriteError::Exists),
        (Expect::Revision(_), None) => return Err(WriteError::Stale),
        (Expect::Revision(expected), Some(found)) if found.revision != expected => {
            return Err(WriteError::Stale);
        }
        _ => {}
    }
    let (value, kind) = match (mutation, &current) {
        (Mutation::Put(value), None) => (value, ChangeKind::Added),
        (Mutation::Put(value), Some(_)) => (value, ChangeKind::Modified),
        (Mutation::Delete(value), _) => (value, ChangeKind::Deleted),
    };
    let object = Arc::new(Stored::new(key.clone(), value, revision));
    Ok(Change::new(kind, object, current))
}
