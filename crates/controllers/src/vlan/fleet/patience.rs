//! How long pods may take to follow an edit before that is told: most take some milliseconds, and a condition that falls
//! and rises again with every edit would be no news to anybody.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use causeway_base::lock::lock;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use tokio::time::Instant;

use crate::framework::wakes::Wakes;

const LIMIT: Duration = Duration::from_secs(10);

/// Since when the pods of each object are behind.
pub(crate) struct Patience<K: Resource<DynamicType = ()>> {
    /// By uid: which generation is waited for, and since when.
    since: Mutex<HashMap<String, (i64, Instant)>>,
    wakes: Wakes<K>,
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Patience<K> {
    /// One that has objects come back by `wakes`.
    pub(crate) fn new(wakes: Wakes<K>) -> Self {
        Self { since: Mutex::default(), wakes }
    }

    /// Whether this generation may still take its time; if so, the object comes back when that is over.
    pub(crate) fn has_more(&self, object: &K) -> bool {
        let wanted = (object.meta().generation.unwrap_or_default(), Instant::now());
        let mut since = lock(&self.since);
        let entry = since.entry(object.uid().unwrap_or_default()).or_insert(wanted);
        if entry.0 != wanted.0 {
            *entry = wanted;
        }
        let left = LIMIT.saturating_sub(entry.1.elapsed());
        if left.is_zero() {
            return false;
        }
        self.wakes.wake_in(LIMIT, ObjectRef::from_obj(object));
        true
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, object: &K) {
        lock(&self.since).remove(&object.uid().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use serde_json::json;

    use super::*;
    use crate::vlan::proxy::fixture;

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_never_follows_an_edit_is_told_of_in_the_end() {
        let wakes = Wakes::default();
        let mut ends = wakes.stream();
        let patience = Patience::new(wakes);
        let mut proxy = fixture::proxy(&json!({}));
        assert!(patience.has_more(&proxy));
        tokio::time::advance(LIMIT / 2).await;
        assert!(patience.has_more(&proxy));
        let back = ends.next().await.unwrap();
        assert_eq!((back.name.as_str(), back.namespace.as_deref()), ("lab", Some("clusters")));
        assert!(!patience.has_more(&proxy), "a pod that is cut off serves what nobody asks for any more");
        proxy.metadata.generation = Some(3);
        assert!(patience.has_more(&proxy), "another edit has time of its own");
    }
}
