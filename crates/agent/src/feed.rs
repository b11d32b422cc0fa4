//! One watch that never gives up: it keeps what it last saw while the API server is away, and says why it can't see.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::backoff::Steady;
use causeway_base::lock::lock;
use causeway_base::{Backoff, report};
use futures::StreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long one watch lasts before it is asked for again.
const WATCH_SECONDS: u32 = 60;
/// Between attempts: soon at first, and never so long that a server that came back is kept waiting.
const PACE: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

/// Which objects of a kind are watched.
pub(crate) enum Which {
    All,
    Named(String),
    Labelled(String),
}

/// Objects of one kind, kept up to date until dropped.
pub(crate) struct Feed<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    sight: Arc<Mutex<Sight>>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Sight {
    /// A whole list was read at least once.
    complete: bool,
    trouble: Option<String>,
    /// The API server answers that there is nothing to see for this program.
    denied: bool,
}

impl<K> Feed<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Starts to watch; `changed` is notified at every change, also of the trouble.
    pub(crate) fn start(api: Api<K>, which: &Which, changed: Arc<Notify>) -> Self {
        Self::start_trimmed(api, which, changed, |_| {})
    }

    /// The same, and of each object only what `trim` leaves is kept.
    pub(crate) fn start_trimmed(api: Api<K>, which: &Which, changed: Arc<Notify>, trim: fn(&mut K)) -> Self {
        let config = watcher::Config::default().timeout(WATCH_SECONDS);
        let config = match which {
            Which::All => config,
            Which::Named(name) => config.fields(&format!("metadata.name={name}")),
            Which::Labelled(labels) => config.labels(labels),
        };
        let (store, writer) = reflector::store();
        let sight = Arc::new(Mutex::new(Sight::default()));
        let seen = Arc::clone(&sight);
        let task = tokio::spawn(async move {
            let events = watcher(api, config).backoff(Pace(Steady::new(PACE))).modify(trim);
            let mut events = std::pin::pin!(reflector::reflector(writer, events));
            while let Some(event) = events.next().await {
                match event {
                    // The store keeps the old objects until the new list is whole.
                    Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
                    Ok(_) => *lock(&seen) = Sight { complete: true, ..Sight::default() },
                    Err(error) => {
                        let mut sight = lock(&seen);
                        sight.denied = is_denial(&error);
                        sight.trouble = Some(explain(&error));
                    }
                }
                changed.notify_one();
            }
        });
        Self { store, sight, task: task.abort_handle() }
    }

    /// What was last seen.
    pub(crate) fn objects(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// Whether a whole list was read at least once.
    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.sight).complete
    }

    /// Whether the API server's last word was that there is nothing to see for this program.
    pub(crate) fn is_denied(&self) -> bool {
        lock(&self.sight).denied
    }

    /// Why nothing newer is seen.
    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.sight).trouble.clone()
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Drop for Feed<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the API server has answered, and not with objects: it does not know the kind, or this program may not see it.
fn is_denial(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            if matches!(status.code, 403 | 404)
    )
}

/// A watch's error with what it came from; the API server's own words are enough.
fn explain(error: &watcher::Error) -> String {
    let (watcher::Error::InitialListFailed(inner)
    | watcher::Error::WatchStartFailed(inner)
    | watcher::Error::WatchFailed(inner)) = error
    else {
        return report::chain(error);
    };
    match inner {
        kube::Error::Api(status) => status.message.clone(),
        other => report::chain(other),
    }
}

/// A watch says that it begins before it has reached anybody, so its beginning alone is no success.
struct Pace(Steady);

impl Iterator for Pace {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0.next_delay())
    }
}

impl kube::runtime::utils::Backoff for Pace {
    fn reset(&mut self) {
        self.0.settle();
    }
}
