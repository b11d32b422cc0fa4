//! A link and the task that drives it.

use std::sync::Arc;

use causeway_base::report::chain;
use causeway_link::{Connection, Handler, Link};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// A link that is driven until it ends. Dropped, it is closed, and its task ends once the other end has heard of it.
pub(crate) struct Driven {
    pub(crate) link: Arc<Link>,
    task: JoinHandle<String>,
}

impl Driven {
    /// Makes a connection a link. `known` is told of the link before the other end is; what it gives back is dropped
    /// when the link ends.
    pub(crate) fn start<K: Send + 'static>(
        connection: Connection,
        handler: Arc<dyn Handler>,
        tasks: &TaskTracker,
        known: impl FnOnce(&Arc<Link>) -> K,
    ) -> Self {
        let (link, driver) = connection.start(handler);
        let known = known(&link);
        let task = tasks.spawn(async move {
            let reason = chain(&driver.run().await);
            tracing::debug!(reason, "a link ended");
            drop(known);
            reason
        });
        Self { link, task }
    }

    /// Waits until the link has ended; says why.
    ///
    /// # Cancellation
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn ended(&mut self) -> String {
        // A panic in there was reported where it happened.
        (&mut self.task).await.unwrap_or_default()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.link.close("this end is done with it");
    }
}
