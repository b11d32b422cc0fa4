//! Kinds that somebody else defines: which of their versions a cluster serves, if any, and a watch of that one. A kind that
//! nobody has defined has no objects, and is asked for again and again, ever more seldom. One whose version goes while it is
//! watched keeps its objects until it is known in which version they are served now.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use causeway_base::{
    Backoff,
    backoff::{Retries, Steady},
    lock::lock,
};
use futures::{Stream, StreamExt, future, stream};
use kube::{
    Client,
    api::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, utils, watcher},
};

use super::{ChildKind, dynamic_api};

/// Between two questions whether a kind is defined by now.
const ABSENT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
/// Between attempts of a watch that fails.
const FAILED: Backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(5));

/// The same where that may be for want of rights.
const DENIED: Backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(30));

type Event = watcher::Result<watcher::Event<DynamicObject>>;

/// The version of a kind that has been listed.
#[derive(Clone, Default)]
pub(super) struct Served(Arc<Mutex<Option<ApiResource>>>);

impl Served {
    pub(super) fn get(&self) -> Option<ApiResource> {
        lock(&self.0).clone()
    }

    pub(super) fn set(&self, resource: Option<ApiResource>) {
        *lock(&self.0) = resource;
    }
}

/// The events of a kind in the best version that is served, in one namespace or, for an empty name, all.
pub(super) fn follow(
    client: Client,
    namespace: String,
    kind: ChildKind,
    config: watcher::Config,
    served: Served,
) -> impl Stream<Item = Event> + Send + 'static {
    // A round is a watch until its kind is gone, or the word that there is none. The first begins at once.
    let rounds = stream::unfold(None::<Retries>, move |last| {
        let (client, namespace, config, served) =
            (client.clone(), namespace.clone(), config.clone(), served.clone());
        async move {
            let mut retries = ABSENT.retries();
            if let Some(last) = last {
                retries = last;
                tokio::time::sleep(retries.next_delay()).await;
            }
            let events = match find(&client, kind).await {
                Ok(Some(resource)) => {
                    let denied = Arc::new(AtomicBool::new(false));
                    let watched = watch(client, &namespace, resource, config, served.clone(), denied.clone());
                    let gone = stream::once(async move {
                        // Of a kind with one version only, its list is the word that there is none. What may not be seen in
                        // a namespace is nothing, or what it was.
                        let is_denied = denied.load(Ordering::Relaxed);
                        let is_empty = if is_denied { served.get().is_none() } else { kind.older.is_empty() };
                        if is_empty { nothing(&served).boxed() } else { stream::empty().boxed() }
                    });
                    watched.chain(gone.flatten()).boxed()
                }
                Ok(None) => nothing(&served).boxed(),
                Err(error) => stream::iter([Err(watcher::Error::InitialListFailed(error))]).boxed(),
            };
            Some((events, Some(retries)))
        }
    });
    rounds.flatten()
}

/// The events of a kind with this one object, for ever.
pub(super) fn only(object: DynamicObject) -> impl Stream<Item = Event> + Send + 'static {
    use watcher::Event::{Init, InitApply, InitDone};
    stream::iter([Ok(Init), Ok(InitApply(object)), Ok(InitDone)]).chain(stream::pending())
}

/// A watch that ends when the kind is not defined any more in this version, and in a namespace where it is not allowed.
fn watch(
    client: Client,
    namespace: &str,
    resource: ApiResource,
    config: watcher::Config,
    served: Served,
    denied: Arc<AtomicBool>,
) -> impl Stream<Item = Event> + Send + 'static {
    let (is_confined, plural) = (!namespace.is_empty(), resource.plural.clone());
    let place = namespace.to_owned();
    watcher(dynamic_api(client, namespace, &resource), config)
        .backoff(pace())
        .take_while(move |event| {
            if is_confined && event.as_ref().is_err_and(is_denied) {
                tracing::debug!("{plural} in namespace {place} may not be read");
                denied.store(true, Ordering::Relaxed);
                return future::ready(false);
            }
            future::ready(!event.as_ref().is_err_and(is_undefined))
        })
        .inspect(move |event| {
            if matches!(event, Ok(watcher::Event::InitDone)) {
                served.set(Some(resource.clone()));
            }
        })
}

/// What a kind without objects says.
fn nothing(served: &Served) -> impl Stream<Item = Event> + Send + use<> {
    served.set(None);
    stream::iter([Ok(watcher::Event::Init), Ok(watcher::Event::InitDone)])
}

/// Whether a watch fails because it is not allowed.
pub(crate) fn is_denied(error: &watcher::Error) -> bool {
    code(error) == Some(403)
}

fn code(error: &watcher::Error) -> Option<u16> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        },
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::NoResourceVersion => None,
    }
}

/// Whether a watch fails because nobody has defined its kind; also one that is resumed, which would ask for the same version
/// for ever.
pub(crate) fn is_undefined(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)) = error else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// The best version of the kind that is served. Of a kind with one version only, its list tells.
async fn find(client: &Client, kind: ChildKind) -> Result<Option<ApiResource>, kube::Error> {
    if kind.older.is_empty() {
        return Ok(Some(kind.resource()));
    }
    for version in std::iter::once(&kind.version).chain(kind.older) {
        let resource = kind.resource_in(version);
        match client.list_api_group_resources(&resource.api_version).await {
            Ok(found) if found.resources.iter().any(|found| found.name == kind.plural) => {
                return Ok(Some(resource));
            }
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The pace of a watch in one namespace, from which its rights may be gone for good.
pub(crate) fn slow_pace() -> impl utils::Backoff {
    Pace(Steady::new(DENIED))
}

/// The pace of a watch that fails: an API server that is back, and a kind that is there at last, is seen within seconds.
pub(crate) fn pace() -> impl utils::Backoff {
    Pace(Steady::new(FAILED))
}

/// A watch says that it begins before it has reached anybody, so its beginning alone is no success.
struct Pace(Steady);

impl Iterator for Pace {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0.next_delay())
    }
}

impl utils::Backoff for Pace {
    fn reset(&mut self) {
        self.0.settle();
    }
}

#[cfg(test)]
mod tests;
