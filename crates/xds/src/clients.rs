//! The connected clients: each stream writes down how far its client is, for status and for those who wait until a plan
//! is applied everywhere.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_ir::{Plan, Problem};
use tokio::sync::watch;

use crate::resource::Resource;
use crate::status::{ClientStatus, Status};

/// Clients that left and whose clusters are remembered.
const REMEMBERED: usize = 256;

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
    /// The clusters of clients that left, by node, those that left first in front.
    left: VecDeque<(String, Vec<Arc<Resource>>)>,
}

struct Client {
    status: ClientStatus,
    /// The snapshot that it has answered in full.
    settled: Option<u64>,
    /// The newest plan that it has taken whole, and its number.
    taken: Option<(u64, Arc<Plan>)>,
}

impl Client {
    fn is_up_to_date(&self, number: u64) -> bool {
        self.status.up_to_date && self.settled == Some(number)
    }
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
        let State { plan, number, refused, clients, .. } = &mut *state;
        for client in clients.values_mut().filter(|client| client.is_up_to_date(*number)) {
            client.taken = plan.clone().map(|plan| (*number, plan));
        }
        let taken =
            clients.values().filter_map(|client| client.taken.as_ref()).max_by_key(|(number, _)| *number);
        let shown = |client: &Client| ClientStatus {
            up_to_date: client.is_up_to_date(*number),
            ..client.status.clone()
        };
        let status = Status {
            plan: plan.clone(),
            taken: taken.map(|(_, plan)| Arc::clone(plan)),
            refused: refused.clone(),
            clients: clients.values().map(shown).collect(),
        };
        self.status_tx.send_if_modified(|old| {
            let same = |a: &Option<Arc<Plan>>, b: &Option<Arc<Plan>>| match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (a, b) => a.is_none() == b.is_none(),
            };
            let changed = !same(&old.plan, &status.plan)
                || !same(&old.taken, &status.taken)
                || old.clients != status.clients
                || old.refused != status.refused;
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

    /// Keeps what a client had when its stream ended, for when it comes again.
    pub(crate) fn remember(&self, node: &str, clusters: Vec<Arc<Resource>>) {
        let left = &mut self.lock().left;
        left.retain(|(known, _)| known != node);
        if left.len() == REMEMBERED {
            left.pop_front();
        }
        left.push_back((node.to_owned(), clusters));
    }

    /// What a client had when its last stream ended.
    pub(crate) fn recall(&self, node: &str) -> Vec<Arc<Resource>> {
        let left = &mut self.lock().left;
        let at = left.iter().position(|(known, _)| known == node);
        at.and_then(|at| left.remove(at)).map(|(_, clusters)| clusters).unwrap_or_default()
    }

    /// An entry for a client, until the value is dropped.
    pub(crate) fn add(self: &Arc<Self>, status: ClientStatus) -> Entry {
        let mut id = 0;
        self.change(|state| {
            state.last_id += 1;
            id = state.last_id;
            state.clients.insert(id, Client { status, settled: None, taken: None });
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
                (client.status, client.settled) = (status.clone(), settled);
            }
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.clients.change(|state| _ = state.clients.remove(&self.id));
    }
}
