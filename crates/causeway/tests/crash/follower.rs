//! A client that watches over all restarts, as an informer does: from its last revision while the server has the
//! history, else with a fresh list.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};

use crate::ledger::{Known, state, version};

#[derive(Default)]
pub struct Follower {
    objects: BTreeMap<String, Known>,
    revision: u64,
    events: usize,
}

impl Follower {
    pub fn events(&self) -> usize {
        self.events
    }

    /// Brings itself up to `revision`, and then must equal the server.
    pub async fn catch_up(&mut self, api: &Api<ConfigMap>, revision: u64) {
        assert!(self.revision <= revision, "a watch saw {}, which the crash took back", self.revision);
        if !self.continue_to(api, revision).await {
            let list = api.list(&params()).await.unwrap();
            self.revision = list.metadata.resource_version.as_ref().unwrap().parse().unwrap();
            self.objects = list.items.iter().map(|o| (o.name_any(), state(o))).collect();
        }
        let list = api.list(&params()).await.unwrap();
        let truth: BTreeMap<_, _> = list.items.iter().map(|o| (o.name_any(), state(o))).collect();
        assert_eq!(self.objects, truth, "what the watch told on the left, the server's list on the right");
    }

    /// Watches on from where it stands; false if the server says that this history is gone.
    async fn continue_to(&mut self, api: &Api<ConfigMap>, revision: u64) -> bool {
        if self.revision == 0 {
            return false;
        }
        let watch = WatchParams::default().labels("writer").timeout(1);
        let mut stream = api.watch(&watch, &self.revision.to_string()).await.unwrap().boxed();
        while self.revision < revision {
            match stream.next().await {
                Some(Ok(WatchEvent::Error(status))) => {
                    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{status:?}");
                    return false;
                }
                Some(Ok(event)) => self.take(event),
                Some(Err(error)) => panic!("the watch broke: {error}"),
                // The server ends it with a bookmark at its own revision.
                None => break,
            }
        }
        true
    }

    /// Follows until the server is gone.
    pub async fn run(mut self, api: Api<ConfigMap>) -> Self {
        let watch = WatchParams::default().labels("writer");
        let Ok(stream) = api.watch(&watch, &self.revision.to_string()).await else { return self };
        let mut stream = stream.boxed();
        // A connection that is cut without a word must not hold up the test.
        while let Ok(Some(Ok(event))) = tokio::time::timeout(Duration::from_secs(5), stream.next()).await {
            self.take(event);
        }
        self
    }

    fn take(&mut self, event: WatchEvent<ConfigMap>) {
        self.events += 1;
        match event {
            WatchEvent::Added(object) => {
                self.advance(version(&object));
                let old = self.objects.insert(object.name_any(), state(&object));
                assert_eq!(old, None, "{} is added twice", object.name_any());
            }
            WatchEvent::Modified(object) => {
                self.advance(version(&object));
                let new = state(&object);
                let old = self.objects.insert(object.name_any(), new.clone());
                let old = old.unwrap_or_else(|| panic!("{} changes before it is there", object.name_any()));
                assert_eq!(old.uid, new.uid);
                assert!(old.serial < new.serial, "{}: {old:?} then {new:?}", object.name_any());
            }
            WatchEvent::Deleted(object) => {
                self.advance(version(&object));
                let old = self.objects.remove(&object.name_any());
                assert!(
                    old.is_some_and(|o| o.uid == object.uid().unwrap()),
                    "{} was there",
                    object.name_any()
                );
            }
            WatchEvent::Bookmark(bookmark) => {
                let revision: u64 = bookmark.metadata.resource_version.parse().unwrap();
                assert!(revision >= self.revision);
                self.revision = revision;
            }
            WatchEvent::Error(status) => panic!("a watch that reads is not cut off: {status:?}"),
        }
    }

    fn advance(&mut self, revision: u64) {
        assert!(revision > self.revision, "{revision} after {}", self.revision);
        self.revision = revision;
    }
}

fn params() -> ListParams {
    ListParams::default().labels("writer")
}
