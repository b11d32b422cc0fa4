//! Brings objects back to their controller for reasons that no watch shows.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Arc, Mutex},
    time::Duration,
};

use causeway_base::lock::lock;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::runtime::reflector::{Lookup, ObjectRef};
use tokio::sync::broadcast;

/// Words that are on their way at a time.
const MOST: usize = 1024;

/// Objects that come back after a while, and after which.
type Pending<K> = HashSet<(ObjectRef<K>, Duration)>;

/// Where objects are woken; clones wake the same controller.
pub(crate) struct Wakes<K: Lookup<DynamicType = ()>> {
    wake_tx: broadcast::Sender<ObjectRef<K>>, // → the controller's queue
    pending: Arc<Mutex<Pending<K>>>,
}

impl<K: Lookup<DynamicType = ()>> Clone for Wakes<K> {
    fn clone(&self) -> Self {
        Self { wake_tx: self.wake_tx.clone(), pending: self.pending.clone() }
    }
}

impl<K: Lookup<DynamicType = ()>> Default for Wakes<K> {
    fn default() -> Self {
        Self { wake_tx: broadcast::channel(MOST).0, pending: Arc::default() }
    }
}

impl<K: Lookup<DynamicType = ()> + Send + Sync + 'static> Wakes<K>
where
    ObjectRef<K>: Clone + Eq + Hash + Send + Sync,
{
    /// Brings the object back.
    pub(crate) fn wake(&self, object: ObjectRef<K>) {
        // A controller whose term is over needs no word.
        let _ = self.wake_tx.send(object);
    }

    /// Brings it back after this time, once however often that is asked for meanwhile.
    pub(crate) fn wake_in(&self, delay: Duration, object: ObjectRef<K>) {
        let key = (object.clone(), delay);
        if !lock(&self.pending).insert(key.clone()) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            lock(&this.pending).remove(&key);
            this.wake(object);
        });
    }

    /// The objects that are brought back from now on.
    pub(crate) fn stream(&self) -> BoxStream<'static, ObjectRef<K>> {
        stream::unfold(self.wake_tx.subscribe(), async |mut wake_rx| {
            loop {
                match wake_rx.recv().await {
                    Ok(object) => return Some((object, wake_rx)),
                    // Those are looked at with the next change, or hourly.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
        .boxed()
    }
}
