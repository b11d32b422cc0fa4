//! Wakes the reconciler for what actors tell, and, whenever a runtime begins to answer, removes the containers of tunnel
//! proxies that are gone: those that went while the operator or the runtime was away, or that could not be removed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_api::ContainerNetworkTunnelProxy;
use causeway_containers::Runtime;
use futures::{Stream, stream};
use kube::api::ListParams;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use super::client::KIND;
use crate::backoff::{self, Backoff};
use crate::container_runtime::{Availability, ContainerRuntime};
use crate::report;

/// Between two tries to sweep.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_mins(1) };

/// Who is to be woken, and who lives.
#[derive(Default)]
pub struct Wakes {
    // actors → reconciler, for the current term
    wake_tx: Mutex<Option<mpsc::UnboundedSender<ObjectRef<ContainerNetworkTunnelProxy>>>>,
    /// Uids of objects with an actor: one made since the API server was asked must not be taken for gone.
    living: Arc<Mutex<HashSet<String>>>,
    /// An object is gone, and something of it may be left.
    ended: Arc<Notify>,
}

impl Wakes {
    /// An object's actor begins.
    pub fn begin(&self, uid: &str) {
        lock(&self.living).insert(uid.to_owned());
    }

    /// An object is gone.
    pub fn end(&self, uid: &str) {
        lock(&self.living).remove(uid);
        self.ended.notify_one();
    }

    /// Has an object reconciled.
    pub fn wake(&self, object: ObjectRef<ContainerNetworkTunnelProxy>) {
        if let Some(wake_tx) = &*lock(&self.wake_tx) {
            // Nobody listens after the term's end.
            let _ = wake_tx.send(object);
        }
    }

    /// Begins a term: the objects to reconcile, as they are woken. It sweeps for as long as it is polled.
    pub fn stream(
        &self,
        client: Client,
        runtime: &ContainerRuntime,
    ) -> impl Stream<Item = ObjectRef<ContainerNetworkTunnelProxy>> + Send + use<> {
        let (wake_tx, wake_rx) = mpsc::unbounded_channel();
        *lock(&self.wake_tx) = Some(wake_tx);
        let mut sweeps = JoinSet::new();
        let sweeper = Sweeper {
            client,
            instance: runtime.instance().to_owned(),
            living: self.living.clone(),
            ended: self.ended.clone(),
        };
        sweeps.spawn(sweeper.run(runtime.availability()));
        stream::unfold((wake_rx, sweeps), |(mut wake_rx, sweeps)| async move {
            let woken = wake_rx.recv().await?;
            Some((woken, (wake_rx, sweeps)))
        })
    }
}

struct Sweeper {
    client: Client,
    instance: String,
    living: Arc<Mutex<HashSet<String>>>,
    ended: Arc<Notify>,
}

impl Sweeper {
    /// Sweeps each time that a runtime begins to answer or an object is gone; ends with the runtime's follower.
    async fn run(self, mut availability_rx: watch::Receiver<Availability>) {
        let mut failures = 0;
        loop {
            let runtime = availability_rx.borrow_and_update().runtime().cloned();
            let is_done = match runtime {
                Some(runtime) => self.sweep(&runtime).await,
                None => true,
            };
            failures = if is_done { 0 } else { failures + 1 };
            let again = async {
                if is_done {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(RETRY.delay(failures, backoff::random())).await;
            };
            tokio::select! {
                changed = availability_rx.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = self.ended.notified() => {}
                () = again => {}
            }
        }
    }

    /// True when it needs no other try.
    async fn sweep(&self, runtime: &Runtime) -> bool {
        let all = Api::<ContainerNetworkTunnelProxy>::all(self.client.clone());
        let existing: HashSet<String> = match all.list(&ListParams::default()).await {
            Ok(list) => list.into_iter().filter_map(|object| object.uid()).collect(),
            Err(error) => {
                tracing::warn!(error = report::chain(&error), "cannot tell which containers are left over");
                return false;
            }
        };
        let lives = |uid: &str| existing.contains(uid) || lock(&self.living).contains(uid);
        match runtime.sweep(&self.instance, KIND, lives).await {
            Ok(swept) => {
                if !swept.containers.is_empty() {
                    tracing::info!(containers = ?swept.containers, "removed what deleted tunnel proxies left");
                }
                true
            }
            Err(error) => {
                tracing::warn!(error = error.report(), "cannot remove what deleted tunnel proxies left");
                false
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
