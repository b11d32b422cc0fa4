//! What is known of the clients, for status and for those who wait until a plan is applied everywhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_ir::{Plan, Problem};
use tokio::sync::watch;

/// The state of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// The newest valid plan, which is served.
    pub plan: Option<Arc<Plan>>,
    /// A newer plan that is not served, and why.
    pub refused: Option<(Arc<Plan>, Vec<Problem>)>,
    /// The Envoys that are connected.
    pub clients: Vec<ClientStatus>,
}

/// One connected Envoy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStatus {
    /// Its node id.
    pub node: String,
    /// Where it connected from.
    pub address: String,
    /// It acknowledged everything of the newest plan.
    pub up_to_date: bool,
    /// Its newest refusal, while what it refused is still served.
    pub nack: Option<Nack>,
    /// It speaks the incremental variant.
    pub delta: bool,
}

/// A configuration that an Envoy refused; it goes on with the last good one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// `cluster`, `endpoints` or `listener`.
    pub kind: &'static str,
    /// Those that it named, or all that were sent.
    pub resources: Vec<String>,
    /// Envoy's own words.
    pub message: String,
}

/// A view of a running server.
#[derive(Clone)]
pub struct Handle {
    board: Arc<Board>,
}

impl Handle {
    pub(crate) fn new(board: Arc<Board>) -> Self {
        Self { board }
    }

    /// The state at this moment.
    pub fn status(&self) -> Status {
        self.board.status_tx.borrow().clone()
    }

    /// The state and its changes.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.board.status_tx.subscribe()
    }

    /// Waits until every connected Envoy acknowledged or refused this plan; `false` if it is not valid, another one
    /// took its place, or the server stopped.
    pub async fn settled(&self, plan: &Arc<Plan>) -> bool {
        let mut tick_rx = self.board.tick_tx.subscribe();
        let mut served = false;
        loop {
            {
                let state = self.board.lock();
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
            if tick_rx.changed().await.is_err() {
                return false;
            }
        }
    }
}

/// Where clients write down how far they are.
pub struct Board {
    state: Mutex<State>,
    status_tx: watch::Sender<Status>, // board → whoever looks
    tick_tx: watch::Sender<()>,       // board → `settled`
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

impl Board {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            status_tx: watch::channel(Status::default()).0,
            tick_tx: watch::channel(()).0,
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
        self.tick_tx.send_replace(());
    }

    pub fn serve(&self, plan: Arc<Plan>, number: u64) {
        self.change(|state| (state.plan, state.number, state.refused) = (Some(plan), number, None));
    }

    pub fn refuse(&self, plan: Arc<Plan>, problems: Vec<Problem>) {
        self.change(|state| state.refused = Some((plan, problems)));
    }

    pub fn stop(&self) {
        self.change(|state| state.stopped = true);
    }

    /// A line for a client, until the value is dropped.
    pub fn enter(self: &Arc<Self>, status: ClientStatus) -> Entry {
        let mut id = 0;
        self.change(|state| {
            state.last_id += 1;
            id = state.last_id;
            state.clients.insert(id, Client { status, settled: None });
        });
        Entry { board: Arc::clone(self), id }
    }
}

/// A client's line.
pub struct Entry {
    board: Arc<Board>,
    id: u64,
}

impl Entry {
    pub fn update(&self, status: &ClientStatus, settled: Option<u64>) {
        self.board.change(|state| {
            if let Some(client) = state.clients.get_mut(&self.id) {
                *client = Client { status: status.clone(), settled };
            }
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.board.change(|state| _ = state.clients.remove(&self.id));
    }
}
