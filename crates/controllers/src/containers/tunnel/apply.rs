//! What is done outside of the API server: every object has a worker, which sees to its image, container and host end. An
//! order tells the worker what is desired, and its state tells how far it got.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_api::{ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus};
use causeway_base::lock::lock;
use futures::future::join_all;
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::state::{Phase, State};
use super::uid;
use super::wakes::Wakes;
use super::worker::{Context, Order, Worker, container};

/// Objects that went and are remembered; more than reconciles can be under way.
const MOST_DEPARTED: usize = 256;

/// The workers of all objects.
pub(super) struct Workers {
    context: Context,
    wakes: Arc<Wakes>,
    by_uid: Mutex<HashMap<String, Worker>>,
    /// Uids of the objects that went last: a reconcile that began before must not start a worker again.
    departed: Mutex<VecDeque<String>>,
}

impl Workers {
    /// None yet; those to come wake their objects by `wakes`.
    pub(super) fn new(context: Context, wakes: Arc<Wakes>) -> Self {
        Self { context, wakes, by_uid: Mutex::default(), departed: Mutex::default() }
    }

    /// Gives the object's worker an order, and says how things stand with it. One that is not there yet is started.
    /// `last_status` is asked for only then.
    pub(super) fn order(
        &self,
        proxy: &ContainerNetworkTunnelProxy,
        order: Order,
        last_status: impl FnOnce() -> ContainerNetworkTunnelProxyStatus,
    ) -> State {
        let mut workers = lock(&self.by_uid);
        if let Some(worker) = workers.get(uid(proxy)) {
            worker.order(order);
            return worker.state();
        }
        if lock(&self.departed).iter().any(|departed| departed == uid(proxy)) {
            return State { phase: Phase::Gone, ..State::default() };
        }
        let owner = container::Owner {
            uid: uid(proxy).to_owned(),
            namespace: proxy.namespace().unwrap_or_default(),
            name: proxy.name_any(),
            instance: self.context.runtime.instance().to_owned(),
        };
        let memory = (last_status(), proxy.spec.tunnels.clone());
        self.wakes.begin(uid(proxy), &owner.namespace, &owner.name);
        let (wakes, reference) = (self.wakes.clone(), ObjectRef::from_obj(proxy));
        let wake = Arc::new(move || wakes.wake(reference.clone()));
        let worker = Worker::start(self.context.clone(), owner, order, memory, wake);
        let state = worker.state();
        workers.insert(uid(proxy).to_owned(), worker);
        state
    }

    /// Nothing is left of the object; its worker, if one is still there, is given back.
    pub(super) fn depart(&self, proxy: &ContainerNetworkTunnelProxy) -> Option<Worker> {
        let mut workers = lock(&self.by_uid);
        let mut departed = lock(&self.departed);
        departed.push_back(uid(proxy).to_owned());
        if departed.len() > MOST_DEPARTED {
            departed.pop_front();
        }
        self.wakes.end(uid(proxy));
        workers.remove(uid(proxy))
    }

    /// Forgets all workers; what they made goes on, for the next operator to adopt.
    pub(super) fn leave_all(&self) {
        drop(std::mem::take(&mut *lock(&self.by_uid)));
    }

    /// Removes everything that was made, and waits for that.
    pub(super) async fn end_all(&self, drain: Duration) {
        let workers = std::mem::take(&mut *lock(&self.by_uid));
        join_all(workers.into_values().map(|worker| worker.end(drain))).await;
    }
}
