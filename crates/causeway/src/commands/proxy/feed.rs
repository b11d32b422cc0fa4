//! One watch that never gives up: it keeps what it last saw while the API server is away, and says why it can't see.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use causeway_controllers::framework::backoff::{Backoff, random};
use futures::StreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Objects of one kind, kept up to date until dropped.
pub struct Feed<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    sight: Arc<Mutex<Sight>>,
    task: AbortHandle,
}

#[derive(Debug, Clone, Default)]
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
    /// Starts to watch; `bell` rings at every change, also of the trouble.
    pub fn start(api: Api<K>, config: watcher::Config, bell: Arc<Notify>) -> Self {
        let (store, writer) = reflector::store();
        let sight = Arc::new(Mutex::new(Sight::default()));
        let seen = Arc::clone(&sight);
        let task = tokio::spawn(async move {
            let events = watcher(api, config).backoff(Pace::default());
            let mut events = std::pin::pin!(reflector::reflector(writer, events));
            while let Some(event) = events.next().await {
                let mut sight = seen.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    // The store keeps the old objects until the new list is whole.
                    Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
                    Ok(_) => *sight = Sight { complete: true, ..Sight::default() },
                    Err(error) => {
                        sight.denied = is_denial(&error);
                        sight.trouble = Some(explain(&error));
                    }
                }
                drop(sight);
                bell.notify_one();
            }
        });
        Self { store, sight, task: task.abort_handle() }
    }

    /// What was last seen.
    pub fn objects(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// Whether a whole list was read at least once.
    pub fn is_complete(&self) -> bool {
        self.sight.lock().unwrap_or_else(PoisonError::into_inner).complete
    }

    /// Whether the API server's last word was that there is nothing to see for this program.
    pub fn is_denied(&self) -> bool {
        self.sight.lock().unwrap_or_else(PoisonError::into_inner).denied
    }

    /// Why nothing newer is seen.
    pub fn trouble(&self) -> Option<String> {
        self.sight.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone()
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
        return error.to_string();
    };
    match inner {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Waits between attempts: soon at first, and never so long that a server that came back is kept waiting.
#[derive(Default)]
struct Pace {
    attempts: u32,
    last: Option<Instant>,
}

/// A watch says that it begins before it has reached anybody, which would undo the waiting.
const CALM: Duration = Duration::from_secs(10);

impl Iterator for Pace {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        self.last = Some(Instant::now());
        let bounds = Backoff { first: Duration::from_millis(250), most: Duration::from_secs(5) };
        Some(bounds.delay(self.attempts, random()))
    }
}

impl kube::runtime::utils::Backoff for Pace {
    fn reset(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() > CALM) {
            self.attempts = 0;
        }
    }
}
