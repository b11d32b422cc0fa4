//! What is done outside of the API server: every object has a worker, which sees to its image, container and host end. An
//! order tells the worker what is desired, and its state tells how far it got.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_api::{ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus};
use causeway_base::lock::lock;
use futures::future::join_all;
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::state::{Phase, State};
use super::wakes::Wakes;
use super::worker::{Context, Order, Worker, container};
use super::{DRAIN, uid};

/// Objects that went and are remembered; more than reconciles can be under way.
const MOST_DEPARTED: usize = 256;

/// Namespace and name: what a directory and everything in it is named after.
type Place = (String, String);

/// The workers of all objects.
pub(super) struct Workers {
    context: Context,
    wakes: Arc<Wakes>,
    by_uid: Mutex<HashMap<String, (Place, Worker)>>,
    /// Where the worker of an object that is gone still clears up: no other may begin there.
    ending: Arc<Mutex<HashSet<Place>>>,
    /// Uids of the objects that went last: a reconcile that began before must not start a worker again.
    departed: Mutex<VecDeque<String>>,
}

impl Workers {
    /// None yet; those to come wake their objects by `wakes`.
    pub(super) fn new(context: Context, wakes: Arc<Wakes>) -> Self {
        Self { context, wakes, by_uid: Mutex::default(), ending: Arc::default(), departed: Mutex::default() }
    }

    /// Gives the object's worker an order, and says how things stand with it. One that is not there yet is started, once
    /// that of an earlier object of the same name is gone. `last_status` is asked for only then.
    pub(super) fn order(
        &self,
        proxy: &ContainerNetworkTunnelProxy,
        order: Order,
        last_status: impl FnOnce() -> ContainerNetworkTunnelProxyStatus,
    ) -> State {
        let mut workers = lock(&self.by_uid);
        if let Some((_, worker)) = workers.get(uid(proxy)) {
            worker.order(order);
            return worker.state();
        }
        if lock(&self.departed).iter().any(|departed| departed == uid(proxy)) {
            return State { phase: Phase::Gone, ..State::default() };
        }
        let place = place(proxy);
        let namesake = workers.iter().find(|(_, (at, _))| *at == place).map(|(uid, _)| uid.clone());
        if let Some((uid, (_, worker))) = namesake.and_then(|uid| workers.remove_entry(&uid)) {
            // It went while nobody watched.
            self.note_departure(&uid);
            self.clear_up(&uid, worker, proxy, DRAIN);
        }
        if lock(&self.ending).contains(&place) {
            return State::default();
        }
        let owner = container::Owner {
            uid: uid(proxy).to_owned(),
            namespace: place.0.clone(),
            name: place.1.clone(),
            instance: self.context.runtime.instance().to_owned(),
        };
        let memory = (last_status(), proxy.spec.tunnels.clone());
        self.wakes.begin(uid(proxy), &owner.namespace, &owner.name);
        let (wakes, reference) = (self.wakes.clone(), ObjectRef::from_obj(proxy));
        let wake = Arc::new(move || wakes.wake(reference.clone()));
        let worker = Worker::start(self.context.clone(), owner, order, memory, wake);
        let state = worker.state();
        workers.insert(uid(proxy).to_owned(), (place, worker));
        state
    }

    /// Nothing is left of the object; its worker, if one is still there, is given back.
    pub(super) fn depart(&self, proxy: &ContainerNetworkTunnelProxy) -> Option<Worker> {
        let worker = self.take(uid(proxy));
        self.wakes.end(uid(proxy));
        worker
    }

    fn take(&self, uid: &str) -> Option<Worker> {
        let mut workers = lock(&self.by_uid);
        self.note_departure(uid);
        workers.remove(uid).map(|(_, worker)| worker)
    }

    fn note_departure(&self, uid: &str) {
        let mut departed = lock(&self.departed);
        departed.push_back(uid.to_owned());
        if departed.len() > MOST_DEPARTED {
            departed.pop_front();
        }
    }

    /// The object is gone. If its worker is still there, somebody has removed the finalizer by hand: it clears up.
    pub(super) fn end(&self, proxy: &ContainerNetworkTunnelProxy, drain: Duration) {
        match self.take(uid(proxy)) {
            Some(worker) => self.clear_up(uid(proxy), worker, proxy, drain),
            None => self.wakes.end(uid(proxy)),
        }
    }

    /// Has the worker of the object `uid` clear up; `proxy`, or one of the same name, is woken when it has.
    fn clear_up(&self, uid: &str, worker: Worker, proxy: &ContainerNetworkTunnelProxy, drain: Duration) {
        let (uid, place, namesake) = (uid.to_owned(), place(proxy), ObjectRef::from_obj(proxy));
        let (ending, wakes) = (self.ending.clone(), self.wakes.clone());
        lock(&ending).insert(place.clone());
        tokio::spawn(async move {
            worker.end(drain).await;
            lock(&ending).remove(&place);
            wakes.end(&uid);
            wakes.wake(namesake);
        });
    }

    /// Forgets all workers; what they made goes on, for the next operator to adopt.
    pub(super) fn leave_all(&self) {
        drop(std::mem::take(&mut *lock(&self.by_uid)));
    }

    /// Removes everything that was made, and waits for that.
    pub(super) async fn end_all(&self, drain: Duration) {
        let workers = std::mem::take(&mut *lock(&self.by_uid));
        join_all(workers.into_values().map(|(_, worker)| worker.end(drain))).await;
    }
}

fn place(proxy: &ContainerNetworkTunnelProxy) -> Place {
    (proxy.namespace().unwrap_or_default(), proxy.name_any())
}
