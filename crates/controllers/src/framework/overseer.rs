//! A controller without an object of its own: whatever changes of all that it watches, it looks at everything again. Changes
//! that come together are taken together, a look that was long is not repeated sooner than that, and a failure is followed by
//! a rest whatever changes, so that two who disagree can't make each other busy.

use std::{sync::Arc, time::Duration};

use causeway_base::backoff::spread;
use futures::{
    FutureExt as _, StreamExt as _,
    future::{self, BoxFuture},
    stream::{self, BoxStream},
};
use kube::{Client, api::DynamicObject, runtime::watcher};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::framework::{
    children::{ChildKind, Children, is_undefined},
    error::{Error, Retry},
    health::Health,
    metrics::Metrics,
    runner::{Config, STOP_GRACE},
};

/// How long more changes are waited for.
const GATHER: Duration = Duration::from_millis(20);
/// The longest rest after a failure. What others change can't wait for longer, though what failed can.
const REST: Duration = Duration::from_secs(1);

/// A stream that yields whenever something has changed, and is polled for as long as the controller runs.
pub(crate) type Changes = BoxStream<'static, watcher::Result<()>>;

/// A look that failed in part.
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// When it wants to look again for the rest of it.
    pub(crate) again: Option<Duration>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, again: None }
    }
}

/// A controller that looks at everything.
pub(crate) trait Overseer: Send + Sync + 'static {
    /// Its name in metrics, logs and field managers.
    const NAME: &'static str;
    /// The kinds that it makes and nobody else's objects of which matter.
    const CHILDREN: &'static [ChildKind];
    /// The kinds that it reads, whoever made them; one that is not defined has no objects.
    const READS: &'static [ChildKind];

    /// Whether a change of this object, of any kind that it watches, can matter.
    fn is_concerned(&self, object: &DynamicObject) -> bool {
        let _ = object;
        true
    }

    /// Further changes to look at. Asked for once per term.
    fn changes(&self, client: &Client) -> Vec<Changes> {
        let _ = client;
        Vec::new()
    }

    /// Brings the world nearer to what all objects ask for. Says when it wants to look again though nothing has changed.
    fn reconcile(&self, children: &Children)
    -> impl Future<Output = Result<Option<Duration>, Failed>> + Send;
}

/// One controller's term, until it is told to stop.
pub(super) fn run<O: Overseer>(
    overseer: Arc<O>,
    client: Client,
    config: Config,
    metrics: Metrics,
    health: Health,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    let term = Term { overseer, config, metrics, health };
    term.until(client, stop).instrument(tracing::info_span!("run", controller = O::NAME)).boxed()
}

struct Term<O> {
    overseer: Arc<O>,
    config: Config,
    metrics: Metrics,
    health: Health,
}

impl<O: Overseer> Term<O> {
    async fn until(self, client: Client, stop: CancellationToken) {
        self.health.synced(O::NAME, false);
        let (children, watches) =
            Children::watch(&client, self.config.namespace.as_deref(), O::CHILDREN, O::READS);
        let own = watches.into_iter().map(|(resource, watch)| {
            watch.map(move |item| (resource.plural.clone(), item.map(Some))).boxed()
        });
        let further = self.overseer.changes(&client).into_iter();
        let further = further.map(|changes| changes.map(|item| (String::new(), item.map(|()| None))).boxed());
        let changed = Notify::new();
        let watching = stream::select_all(own.chain(further)).for_each(|(plural, item)| {
            match item {
                Ok(object) => {
                    let object: Option<DynamicObject> = object;
                    if object.is_none_or(|object| self.overseer.is_concerned(&object)) {
                        changed.notify_one();
                    }
                }
                Err(error) => self.failed(&plural, &error),
            }
            future::ready(())
        });
        let listing = children.lists().for_each(|()| {
            changed.notify_one();
            future::ready(())
        });
        let given_up = async {
            stop.cancelled().await;
            sleep(STOP_GRACE).await;
        };
        tokio::select! {
            ((), ()) = future::join(watching, listing) => {}
            () = self.work(&children, &changed, &stop) => {}
            () = given_up => {}
        }
    }

    fn failed(&self, plural: &str, error: &watcher::Error) {
        if is_undefined(error) {
            if self.health.undefined(O::NAME, plural) {
                tracing::warn!(
                    controller = O::NAME,
                    "this cluster does not know {plural}: apply Causeway's definitions (deploy/crds)"
                );
            }
            return;
        }
        let error: &dyn std::error::Error = error;
        self.metrics.watch_failed(O::NAME);
        tracing::warn!(controller = O::NAME, error, "a watch failed and is restarted");
    }

    async fn work(&self, children: &Children, changed: &Notify, stop: &CancellationToken) {
        tokio::select! {
            filled = children.filled() => if !filled { return },
            () = stop.cancelled() => return,
        }
        self.health.synced(O::NAME, true);
        let mut failures = 0_u32;
        loop {
            let started = Instant::now();
            self.metrics.started(O::NAME);
            let under_way = self.health.reconciling(O::NAME);
            let result = self.overseer.reconcile(children).await;
            drop(under_way);
            let took = started.elapsed();
            self.metrics.ended(O::NAME, took, result.as_ref().err().map(|failed| failed.error.category()));
            let resync = spread(self.config.resync);
            let (rest, next) = match &result {
                Ok(again) => {
                    failures = 0;
                    (GATHER.max(took), again.map_or(resync, |again| again.min(resync)))
                }
                Err(Failed { error, again }) => {
                    failures = failures.saturating_add(1);
                    let delay = match error.retry() {
                        Retry::Backoff => self.config.backoff.delay(failures),
                        Retry::OnChange | Retry::Never => resync,
                    };
                    let delay = again.map_or(delay, |again| again.min(delay));
                    let error: &dyn std::error::Error = error;
                    tracing::warn!(controller = O::NAME, retry.after = ?delay, error, "reconcile failed");
                    (delay.min(REST).max(took), delay.saturating_sub(REST))
                }
            };
            self.metrics.retrying(O::NAME, usize::from(failures > 0));
            tokio::select! {
                () = async {
                    sleep(rest).await;
                    tokio::select! {
                        () = changed.notified() => sleep(GATHER).await,
                        () = sleep(next) => {}
                    }
                } => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
