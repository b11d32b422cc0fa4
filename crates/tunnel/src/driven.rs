//! A link and the task that drives it.

use std::sync::Arc;

use causeway_base::report::chain;
use causeway_link::{Connection, Handler, Incoming, Link};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// A link that is driven until it ends. Dropped, it is closed, and its task ends once the other end has heard of it.
pub(crate) struct Driven {
    pub(crate) link: Arc<Link>,
    task: JoinHandle<()>,
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
            let ended = driver.run().await;
            tracing::debug!(reason = chain(&ended), "a link ended");
            drop(known);
        });
        Self { link, task }
    }

    /// Waits until the link has ended.
    ///
    /// # Cancellation
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn ended(&mut self) {
        // A panic in there was reported where it happened.
        let _ = (&mut self.task).await;
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

/// For links on which the other end may not open streams.
pub(crate) struct NoStreams;

impl Handler for NoStreams {
    fn opened(&self, incoming: Incoming<'_>) {
        incoming.refuse("this end takes no streams");
    }
}
