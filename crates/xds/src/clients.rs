//! The connected clients: each stream writes down how far its client is, for status and for those who wait until a plan
//! is applied everywhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_ir::{Plan, Problem};
use tokio::sync::watch;

use crate::status::{ClientStatus, Status};

/// The clients and the plan that they are served.
pub(crate) struct Clients {
    state: Mutex<State>,
    pub(crate) status_tx: watch::Sender<Status>, // streams → handles
    change_tx: watch::Sender<()>,                // streams → `settled`
}

#[derive(Default)]
struct State {
    plan: Option<Arc<Plan>>,
    number: u64,
    refused: Option<(Arc<Plan>, Vec<Problem>)>,
    clients: BTreeMap<u64, Client>,
    last_id: u64,
    stopped: bool,
}

struct Client {
    status: ClientStatus,
    /// The snapshot that it has answered in full.
    settled: Option<u64>,
}

impl Clients {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            status_tx: watch::channel(Status::default()).0,
            change_tx: watch::channel(()).0,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let number = state.number;
        let clients = state.clients.values().map(|client| ClientStatus {
            up_to_date: client.status.up_to_date && client.settled == Some(number),
            ..client.status.clone()
        });
        let status =
            Status { plan: state.plan.clone(), refused: state.refused.clone(), clients: clients.collect() };
        self.status_tx.send_if_modified(|old| {
            let same_plan = match (&old.plan, &status.plan) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (a, b) => a.is_none() == b.is_none(),
            };
            let changed = !same_plan || old.clients != status.clients || old.refused != status.refused;
            *old = status;
            changed
        });
        drop(state);
        self.change_tx.send_replace(());
    }

    pub(crate) fn serve(&self, plan: Arc<Plan>, number: u64) {
        self.change(|state| (state.plan, state.number, state.refused) = (Some(plan), number, None));
    }

    pub(crate) fn refuse(&self, plan: Arc<Plan>, problems: Vec<Problem>) {
        self.change(|state| state.refused = Some((plan, problems)));
    }

    pub(crate) fn stop(&self) {
        self.change(|state| state.stopped = true);
    }

    /// Waits until every client has answered all of a plan; `false` if that won't be.
    pub(crate) async fn settled(&self, plan: &Arc<Plan>) -> bool {
        let mut change_rx = self.change_tx.subscribe();
        let mut served = false;
        loop {
            {
                let state = self.lock();
                let is = |other: Option<&Arc<Plan>>| other.is_some_and(|other| Arc::ptr_eq(other, plan));
                if is(state.refused.as_ref().map(|(plan, _)| plan)) || state.stopped {
                    return false;
                }
                if is(state.plan.as_ref()) {
                    if state.clients.values().all(|client| client.settled == Some(state.number)) {
                        return true;
                    }
                    served = true;
                } else if served {
                    return false;
                }
            }
            if change_rx.changed().await.is_err() {
                return false;
            }
        }
    }

    /// An entry for a client, until the value is dropped.
    pub(crate) fn add(self: &Arc<Self>, status: ClientStatus) -> Entry {
        let mut id = 0;
        self.change(|state| {
            state.last_id += 1;
            id = state.last_id;
            state.clients.insert(id, Client { status, settled: None });
        });
        Entry { clients: Arc::clone(self), id }
    }
}

/// A client's entry.
pub(crate) struct Entry {
    clients: Arc<Clients>,
    id: u64,
}

impl Entry {
    pub(crate) fn update(&self, status: &ClientStatus, settled: Option<u64>) {
        self.clients.change(|state| {
            if let Some(client) = state.clients.get_mut(&self.id) {
                *client = Client { status: status.clone(), settled };
            }
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.clients.change(|state| _ = state.clients.remove(&self.id));
    }
}
