//! Wakes the reconciler for what actors tell, and, whenever a runtime begins to answer, removes the containers of tunnel
//! proxies that are gone: those that went while the operator or the runtime was away, or that could not be removed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_api::ContainerNetworkTunnelProxy;
use futures::{Stream, stream};
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use crate::containers::leftovers::Sweeper;
use crate::containers::runtime::{Availability, ContainerRuntime};
use crate::framework::backoff::{self, Backoff};

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
        let living = self.living.clone();
        let sweeper = Sweeper::new(client, runtime.instance(), move |uid| lock(&living).contains(uid));
        sweeps.spawn(sweep(sweeper, self.ended.clone(), runtime.availability()));
        stream::unfold((wake_rx, sweeps), |(mut wake_rx, sweeps)| async move {
            let woken = wake_rx.recv().await?;
            Some((woken, (wake_rx, sweeps)))
        })
    }
}

/// Sweeps each time that a runtime begins to answer or an object is gone; ends with the runtime's follower.
async fn sweep(
    sweeper: Sweeper<ContainerNetworkTunnelProxy>,
    ended: Arc<Notify>,
    mut availability_rx: watch::Receiver<Availability>,
) {
    let mut failures = 0;
    loop {
        let runtime = availability_rx.borrow_and_update().runtime().cloned();
        let is_due = match runtime {
            Some(runtime) => sweeper.sweep(&runtime).await,
            None => false,
        };
        failures = if is_due { failures + 1 } else { 0 };
        let again = async {
            if !is_due {
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
            () = ended.notified() => {}
            () = again => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
