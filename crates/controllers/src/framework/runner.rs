//! Runs controllers: one kube controller per kind that wakes on a new generation of its objects and on any change of
//! their children, with bounded concurrency, a jittered resync as a net, and one error policy for all.

use std::{
    collections::HashMap,
    future::Future,
    hash::{DefaultHasher, Hash as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use causeway_base::{Backoff, backoff::spread, lock::lock};
use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use kube::{
    Client, Resource, ResourceExt,
    api::DynamicObject,
    runtime::{
        Controller, PredicateConfig, WatchStreamExt, controller, predicates,
        reflector::{self, ObjectRef},
        watcher::{self, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::framework::{
    children::{ChildKind, Children, is_denied, is_undefined, owner_of, pace, slow_pace},
    error::{Category, Error, Retry},
    health::Health,
    metrics::Metrics,
    overseer::{self, Overseer},
    scope::{Kind, Scope},
};

/// How long reconciles that run may go on after a stop.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(3);
/// How long a controller may take to let go of what it holds.
const END_GRACE: Duration = Duration::from_secs(5);

/// A controller: what it watches and how it reconciles one object.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind it serves.
    type Primary: Kind + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static;
    /// Its name in metrics, logs, Events and field managers.
    const NAME: &'static str;
    /// The kinds it makes: watched, applied and pruned by this one table.
    const CHILDREN: &'static [ChildKind];

    /// The kinds it reads, whoever made them; one that is not defined has no objects.
    const READS: &'static [ChildKind] = &[];

    /// Brings the world nearer to what `object` asks for.
    fn reconcile(
        &self,
        object: Arc<Self::Primary>,
        children: Children,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// A digest of what wakes this controller when it changes in its own object: the spec, unless it asks for more.
    fn wakes_on(object: &Self::Primary) -> Option<u64> {
        predicates::generation(object)
    }

    /// Whether a change of an object of a kind that it reads matters to `object`.
    fn is_concerned(&self, object: &Self::Primary, read: &DynamicObject) -> bool {
        let _ = (object, read);
        false
    }

    /// Hears that an object is gone.
    fn forget(&self, object: &Self::Primary) {
        let _ = object;
    }

    /// Objects to reconcile for reasons that no watch shows. Asked for once per term.
    fn wakes(&self) -> BoxStream<'static, ObjectRef<Self::Primary>> {
        stream::pending().boxed()
    }

    /// The controller's term is over: clear up what must not outlive it.
    fn end(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// The term is over, whether `end` came to its own end or was cut short: from now on nothing may be done in its name.
    fn leave(&self) {}
}

/// How controllers are run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Reconciles of one controller at the same time.
    pub concurrency: u16,
    /// How often every object is reconciled without a cause, before jitter.
    pub resync: Duration,
    /// The delays after failures.
    pub backoff: Backoff,
    /// How long a reconcile waits for the caches to be filled.
    pub sync_patience: Duration,
    /// How long controllers may take to stop before they are aborted.
    pub stop_within: Duration,
    /// The namespace to work in; none for all.
    pub namespace: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 4,
            resync: Duration::from_hours(1),
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_mins(5)),
            sync_patience: Duration::from_secs(30),
            stop_within: STOP_GRACE + END_GRACE,
            namespace: None,
        }
    }
}

/// A digest of what a controller with a finalizer looks at beside the spec: whether the object goes, and who is waited
/// for. More may be hashed into it.
pub(crate) fn life(object: &impl Resource) -> DefaultHasher {
    let metadata = object.meta();
    let mut hasher = DefaultHasher::new();
    metadata.generation.hash(&mut hasher);
    metadata.deletion_timestamp.is_some().hash(&mut hasher);
    metadata.finalizers.hash(&mut hasher);
    hasher
}

/// Controllers that run together and stop together.
pub struct Runner {
    client: Client,
    config: Config,
    metrics: Metrics,
    health: Health,
    controllers: Vec<Box<dyn Fn(CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>>,
}

impl Runner {
    /// A runner without controllers.
    pub fn new(client: Client, config: Config, metrics: Metrics, health: Health) -> Self {
        Self { client, config, metrics, health, controllers: Vec::new() }
    }

    /// Controllers that are added from now on work in this namespace alone, and know of no other.
    pub(crate) fn confine(&mut self, namespace: &str) {
        self.config.namespace = Some(namespace.to_owned());
        self.health = self.health.within(namespace);
    }

    /// Adds a controller.
    pub fn register<R: Reconciler>(&mut self, reconciler: R) {
        let reconciler = Arc::new(reconciler);
        let (client, config) = (self.client.clone(), self.config.clone());
        let (metrics, health) = (self.metrics.clone(), self.health.clone());
        self.controllers.push(Box::new(move |stop| {
            let run = Run {
                reconciler: reconciler.clone(),
                config: config.clone(),
                metrics: metrics.clone(),
                health: health.clone(),
                failures: Mutex::default(),
            };
            run.until(client.clone(), stop)
                .instrument(tracing::info_span!("run", controller = R::NAME))
                .boxed()
        }));
    }

    /// Adds a controller that has no object of its own.
    pub(crate) fn oversee<O: Overseer>(&mut self, overseer: O) {
        let overseer = Arc::new(overseer);
        let (client, config) = (self.client.clone(), self.config.clone());
        let (metrics, health) = (self.metrics.clone(), self.health.clone());
        self.controllers.push(Box::new(move |stop| {
            let (metrics, health) = (metrics.clone(), health.clone());
            overseer::run(overseer.clone(), client.clone(), config.clone(), metrics, health, stop)
        }));
    }

    /// Runs every controller until `stop` is cancelled and the reconciles under way have ended or were aborted: nothing is
    /// written any more when this returns. Each call starts afresh.
    ///
    /// # Cancellation
    /// Dropped early, all controllers are aborted.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut running = JoinSet::new();
        for start in &self.controllers {
            running.spawn(start(stop.child_token()));
        }
        let given_up = async {
            stop.cancelled().await;
            tokio::time::sleep(self.config.stop_within).await;
        };
        let mut given_up = std::pin::pin!(given_up);
        loop {
            let ended = tokio::select! {
                ended = running.join_next() => ended,
                () = &mut given_up => {
                    tracing::warn!("some reconciles did not end in time and were aborted");
                    // An abort alone is only a wish: a task may be in the middle of a step.
                    running.shutdown().await;
                    None
                }
            };
            let Some(ended) = ended else { break };
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(%error, "a controller panicked");
            }
            if !stop.is_cancelled() {
                // One controller ended by itself: none may go on alone, the caller decides what is next.
                stop.cancel();
            }
        }
    }
}

/// Tells a controller that its term is over, however it ends.
struct Term<R: Reconciler>(Arc<R>);

impl<R: Reconciler> Drop for Term<R> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// One controller's term.
struct Run<R: Reconciler> {
    reconciler: Arc<R>,
    config: Config,
    metrics: Metrics,
    health: Health,
    /// Failures in a row, by object.
    failures: Mutex<HashMap<String, u32>>,
}

impl<R: Reconciler> Run<R> {
    async fn until(self, client: Client, stop: CancellationToken) {
        self.health.synced(R::NAME, false);
        let term = Term(self.reconciler.clone());
        let (children, mut watches) =
            Children::watch(&client, self.config.namespace.as_deref(), R::CHILDREN, R::READS);
        let reads = watches.split_off(R::CHILDREN.len());
        let (cache, writer) = reflector::store::<R::Primary>();
        let concerned = cache.clone();
        let (filled_tx, mut filled_rx) = watch::channel(false); // the first list of its objects → `synced`
        let api = <R::Primary as Resource>::Scope::api(client, self.config.namespace.as_deref());
        let run = Arc::new(self);
        let gone = run.clone();
        let watched = watcher(api, watcher::Config::default());
        let watched = match run.config.namespace {
            Some(_) => watched.backoff(slow_pace()).boxed(),
            None => watched.backoff(pace()).boxed(),
        };
        let (may_see, nothing_tx) = (run.clone(), filled_tx.clone());
        let mut is_told = false;
        // Where it may see nothing in its namespace, there is nothing to do.
        let watched = watched.filter(move |event| {
            let is_denied = may_see.config.namespace.is_some() && event.as_ref().is_err_and(is_denied);
            if is_denied && !std::mem::replace(&mut is_told, true) {
                let place = may_see.config.namespace.as_deref().unwrap_or_default();
                let plural = R::Primary::plural(&());
                tracing::warn!(
                    controller = R::NAME,
                    "{plural} in namespace {place} may not be read: none are followed"
                );
                nothing_tx.send_replace(true);
            }
            is_told &= !matches!(event, Ok(watcher::Event::InitDone));
            std::future::ready(!is_denied)
        });
        let primary = run
            .defined(R::Primary::plural(&()).into_owned(), watched)
            .inspect(move |event| {
                if let Ok(watcher::Event::Delete(object)) = event {
                    gone.forget(object);
                }
            })
            .reflect(writer)
            .inspect(move |event| {
                if matches!(event, Ok(watcher::Event::InitDone)) {
                    filled_tx.send_replace(true);
                }
            })
            .applied_objects()
            .predicate_filter(R::wakes_on, PredicateConfig::default());
        let mut controller = Controller::for_stream(primary, cache)
            .with_config(controller::Config::default().concurrency(run.config.concurrency))
            .reconcile_on(run.reconciler.wakes())
            .graceful_shutdown_on(stop.clone().cancelled_owned());
        for (resource, watch) in watches {
            let watch = run.defined(resource.plural.clone(), watch);
            controller =
                controller.watches_stream_with(watch, |child| owner_of::<R::Primary>(&child), resource);
        }
        for (resource, watch) in reads {
            let (primaries, reconciler) = (concerned.clone(), run.reconciler.clone());
            let mapper = move |read: DynamicObject| {
                let woken = primaries.state_filter(|object| reconciler.is_concerned(object, &read));
                woken.iter().map(|object| ObjectRef::from_obj(&**object)).collect::<Vec<_>>()
            };
            controller = controller.watches_stream_with(watch, mapper, resource);
        }
        let metrics = run.metrics.clone();
        let synced = {
            let (children, health) = (children.clone(), run.health.clone());
            async move {
                if filled_rx.wait_for(|filled| *filled).await.is_ok() && children.filled().await {
                    health.synced(R::NAME, true);
                }
                std::future::pending::<()>().await;
            }
        };
        let reconciles = controller
            .run(
                move |object, run: Arc<Self>| {
                    let children = children.clone();
                    async move { run.reconcile(object, children).await }
                },
                |object, error, run| run.policy(&object, error),
                run,
            )
            .for_each(|ended| {
                if let Err(controller::Error::QueueError(error)) = ended {
                    let error: &dyn std::error::Error = &error;
                    metrics.watch_failed(R::NAME);
                    tracing::warn!(controller = R::NAME, error, "a watch failed and is restarted");
                }
                std::future::ready(())
            });
        // A controller whose caches never filled does not end by itself.
        let given_up = async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::select! {
            () = reconciles => {}
            () = synced => {}
            () = given_up => {}
        }
        if tokio::time::timeout(END_GRACE, term.0.end()).await.is_err() {
            tracing::warn!(controller = R::NAME, "a controller did not let go of what it holds in time");
        }
    }

    /// The same watch without the word that nobody has defined its kind: that is told once, with what to do, and looked
    /// for again within seconds.
    fn defined<T: Send + 'static>(
        self: &Arc<Self>,
        plural: String,
        watch: impl Stream<Item = watcher::Result<T>> + Send + 'static,
    ) -> impl Stream<Item = watcher::Result<T>> + Send + 'static {
        let run = self.clone();
        watch.filter_map(move |item| {
            let is_undefined = item.as_ref().is_err_and(is_undefined);
            if is_undefined && run.health.undefined(R::NAME, &plural) {
                tracing::warn!(
                    controller = R::NAME,
                    "this cluster does not know {plural}: apply Causeway's definitions (deploy/crds)"
                );
            }
            std::future::ready((!is_undefined).then_some(item))
        })
    }

    async fn reconcile(
        &self,
        object: Arc<R::Primary>,
        children: Children,
    ) -> Result<controller::Action, Error> {
        let span = tracing::info_span!("reconcile", controller = R::NAME, object.r#ref = key(&*object));
        let started = Instant::now();
        self.metrics.started(R::NAME);
        let _under_way = self.health.reconciling(R::NAME);
        let result = async {
            children.ready(self.config.sync_patience).await?;
            self.reconciler.reconcile(object.clone(), children).await
        }
        .instrument(span)
        .await;
        self.metrics.ended(R::NAME, started.elapsed(), result.as_ref().err().map(Error::category));
        result?;
        self.set_failures(&key(&*object), None);
        Ok(controller::Action::requeue(spread(self.config.resync)))
    }

    /// The one error policy.
    fn policy(&self, object: &R::Primary, error: &Error) -> controller::Action {
        let key = key(object);
        let category: Category = error.category();
        let retry = error.retry();
        let failures = match retry {
            Retry::Backoff => lock(&self.failures).get(&key).copied().unwrap_or(0).saturating_add(1),
            Retry::OnChange | Retry::Never => 0,
        };
        self.set_failures(&key, (failures > 0).then_some(failures));
        let delay = match retry {
            Retry::Backoff => Some(self.config.backoff.delay(failures)),
            Retry::OnChange => Some(spread(self.config.resync)),
            Retry::Never => None,
        };
        let error: &dyn std::error::Error = error;
        tracing::warn!(
            controller = R::NAME,
            object.r#ref = key,
            category = category.reason(),
            retry.after = ?delay,
            error,
            "reconcile failed"
        );
        delay.map_or_else(controller::Action::await_change, controller::Action::requeue)
    }

    fn forget(&self, object: &R::Primary) {
        self.set_failures(&key(object), None);
        self.reconciler.forget(object);
    }

    fn set_failures(&self, key: &str, count: Option<u32>) {
        let mut failures = lock(&self.failures);
        let before = failures.len() as i64;
        match count {
            Some(count) => drop(failures.insert(key.to_owned(), count)),
            None => drop(failures.remove(key)),
        }
        self.metrics.retrying_more(R::NAME, failures.len() as i64 - before);
    }
}

impl<R: Reconciler> Drop for Run<R> {
    fn drop(&mut self) {
        let left = lock(&self.failures).len() as i64;
        self.metrics.retrying_more(R::NAME, -left);
    }
}

fn key(object: &impl ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

#[cfg(test)]
mod tests;
