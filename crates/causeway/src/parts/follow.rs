//! One object, followed until something is true of it.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::bail;
use futures::{StreamExt as _, pin_mut};
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::refusal;

/// What is thought of a state of the object.
pub(crate) enum Verdict<T> {
    /// It is what is waited for.
    There(T),
    /// It is not yet; if nothing else comes, these are the words to end with.
    NotYet(String),
}

/// Looks at every state of an object, none if it is gone, until one is what is waited for.
///
/// # Errors
/// What `look` says, that the object may not be watched, or that it took too long, with the last words of `look`.
pub(crate) async fn until<K, T>(
    api: &Api<K>,
    name: &str,
    limit: Duration,
    mut look: impl FnMut(Option<&K>) -> anyhow::Result<Verdict<T>>,
) -> anyhow::Result<T>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let deadline = Instant::now() + limit;
    let states = watcher::watch_object(api.clone(), name);
    pin_mut!(states);
    let mut last = format!("nothing was heard of {} {name}", K::kind(&()));
    loop {
        match timeout_at(deadline, states.next()).await {
            Ok(Some(Ok(state))) => match look(state.as_ref())? {
                Verdict::There(found) => return Ok(found),
                Verdict::NotYet(words) => last = words,
            },
            Ok(Some(Err(error))) => {
                let said = words(&error);
                if is_final(&error) {
                    bail!("can't follow {} {name}: {said}", K::kind(&()));
                }
                last = said;
                // The watcher tries again at once; an API server that is away is not helped by that.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Ok(None) => bail!("the watch of {} {name} ended: {last}", K::kind(&())),
            Err(_) => bail!("{last} (waited {} s)", limit.as_secs()),
        }
    }
}

fn kube_error(error: &watcher::Error) -> Option<&kube::Error> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        _ => None,
    }
}

/// What a watch says, for people.
pub(crate) fn words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::WatchError(status) => status.message.clone(),
        other => kube_error(other).map_or_else(|| causeway_base::report::chain(other), refusal::advice),
    }
}

/// Whether trying again changes nothing.
fn is_final(error: &watcher::Error) -> bool {
    kube_error(error).is_some_and(refusal::is_forbidden)
}
