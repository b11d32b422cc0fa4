//! Work that goes on behind the requests: garbage collection by owner, emptying deleted namespaces and CRDs, the
//! objects every namespace has, aggregated roles, old Events.

mod aggregation;
mod custom_resources;
mod edit;
mod events;
mod garbage;
mod namespaces;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio_util::task::TaskTracker;

use crate::server::Server;
use crate::store::Change;

/// Work that failed is tried again after this long.
const RETRY: Duration = Duration::from_secs(2);

/// Starts all of it; ends with the server's shutdown.
pub(crate) fn spawn(server: &Arc<Server>, tracker: &TaskTracker) {
    tracker.spawn(garbage::run(server.clone()));
    tracker.spawn(follow(server.clone(), namespaces::sweep, namespaces::concerns));
    tracker.spawn(follow(server.clone(), custom_resources::sweep, custom_resources::concerns));
    tracker.spawn(follow(server.clone(), aggregation::sweep, aggregation::concerns));
    tracker.spawn(events::run(server.clone()));
}

/// Runs `sweep` now, and again after every change that concerns it. A sweep looks at everything and says whether it
/// has more to do.
async fn follow<F>(server: Arc<Server>, sweep: fn(Arc<Server>) -> F, concerns: fn(&Server, &Change) -> bool)
where
    F: Future<Output = bool> + Send,
{
    let mut feed = server.store.feed();
    loop {
        let done = sweep(server.clone()).await;
        loop {
            let retry =
                async { if done { std::future::pending().await } else { tokio::time::sleep(RETRY).await } };
            tokio::select! {
                () = server.shutdown.cancelled() => return,
                () = retry => break,
                change = feed.recv() => match change {
                    Ok(change) if !concerns(&server, &change) => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }
}
