//! Wakes the reconciler for what workers tell, and removes what tunnel proxies left that went while the operator or the
//! runtime was away: host ends at the start, containers whenever a runtime begins to answer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_api::ContainerNetworkTunnelProxy;
use causeway_base::{Backoff, lock::lock};
use futures::{Stream, stream};
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use crate::containers::leftovers::Sweeper;
use crate::containers::runtime::{Availability, ContainerRuntime};

use super::sweep::sweep_host_ends;

/// Between two tries to sweep.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// The objects that a worker works for: namespace and name by uid.
pub(super) type Served = Arc<Mutex<HashMap<String, (String, String)>>>;

/// Who is to be woken, and who lives.
#[derive(Default)]
pub(crate) struct Wakes {
    // workers → reconciler, for the current term
    wake_tx: Mutex<Option<mpsc::UnboundedSender<ObjectRef<ContainerNetworkTunnelProxy>>>>,
    /// Objects with a worker: one made since the API server was asked must not be taken for gone.
    served: Served,
    /// An object is gone, and something of it may be left.
    ended: Arc<Notify>,
}

impl Wakes {
    /// An object's worker begins.
    pub(crate) fn begin(&self, uid: &str, namespace: &str, name: &str) {
        lock(&self.served).insert(uid.to_owned(), (namespace.to_owned(), name.to_owned()));
    }

    /// An object is gone.
    pub(crate) fn end(&self, uid: &str) {
        lock(&self.served).remove(uid);
        self.ended.notify_one();
    }

    /// Has an object reconciled.
    pub(crate) fn wake(&self, object: ObjectRef<ContainerNetworkTunnelProxy>) {
        if let Some(wake_tx) = &*lock(&self.wake_tx) {
            // Nobody listens after the term's end.
            let _ = wake_tx.send(object);
        }
    }

    /// Begins a term: the objects to reconcile, as they are woken. It sweeps for as long as it is polled.
    pub(crate) fn stream(
        &self,
        client: Client,
        runtime: &ContainerRuntime,
        directory: PathBuf,
    ) -> impl Stream<Item = ObjectRef<ContainerNetworkTunnelProxy>> + Send + use<> {
        let (wake_tx, wake_rx) = mpsc::unbounded_channel();
        *lock(&self.wake_tx) = Some(wake_tx);
        let mut sweeps = JoinSet::new();
        let served = self.served.clone();
        let sweeper = Sweeper::new(client, runtime.instance(), move |uid| lock(&served).contains_key(uid));
        let host_ends = (directory, self.served.clone());
        sweeps.spawn(sweep(sweeper, host_ends, self.ended.clone(), runtime.availability()));
        stream::unfold((wake_rx, sweeps), |(mut wake_rx, sweeps)| async move {
            let woken = wake_rx.recv().await?;
            Some((woken, (wake_rx, sweeps)))
        })
    }
}

/// Sweeps each time that a runtime begins to answer or an object is gone; ends with the runtime's follower.
async fn sweep(
    sweeper: Sweeper<ContainerNetworkTunnelProxy>,
    (directory, served): (PathBuf, Served),
    ended: Arc<Notify>,
    mut availability_rx: watch::Receiver<Availability>,
) {
    let mut retries = RETRY.retries();
    loop {
        let runtime = availability_rx.borrow_and_update().runtime().cloned();
        let mut is_due = sweep_host_ends(&sweeper, &directory, &served).await;
        if let Some(runtime) = runtime {
            is_due |= sweeper.sweep(&runtime).await;
        }
        if !is_due {
            retries.reset();
        }
        let again = async {
            if !is_due {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(retries.next_delay()).await;
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
