//! A reader of one collection's history. It holds a position, not a queue: a slow watcher costs nothing and loses
//! its place when the history moves on without it.

use std::sync::{Arc, RwLock};

use causeway_base::lock::read;
use tokio::sync::watch;

use super::{Change, Compacted, GroupResource, State};

/// A position in the history of one collection.
pub(crate) struct Watcher {
    state: Arc<RwLock<State>>,
    resource: GroupResource,
    /// Everything up to here has been handed out.
    position: u64,
    revision_rx: watch::Receiver<u64>,
}

impl Watcher {
    pub(super) fn new(
        state: Arc<RwLock<State>>,
        resource: GroupResource,
        position: u64,
        mut revision_rx: watch::Receiver<u64>,
    ) -> Self {
        revision_rx.mark_changed();
        Self { state, resource, position, revision_rx }
    }

    /// The next changes, in order; waits while there are none.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing: the position moves only when changes are returned.
    pub(crate) async fn next(&mut self) -> Result<Vec<Arc<Change>>, Compacted> {
        loop {
            // The sender lives in the collection, which is never dropped while the store is.
            let _ = self.revision_rx.changed().await;
            let changes = self.poll()?;
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    /// The changes there are now, without waiting. Moves the position to the store's revision.
    pub(crate) fn poll(&mut self) -> Result<Vec<Arc<Change>>, Compacted> {
        let state = read(&self.state);
        let changes = match state.collections.get(&self.resource) {
            Some(collection) => collection.changes_after(self.position)?,
            None => Vec::new(),
        };
        self.position = self.position.max(state.revision);
        Ok(changes)
    }

    /// The revision up to which this watcher has seen everything.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }
}
