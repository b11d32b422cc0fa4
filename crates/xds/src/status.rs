//! What a server shows of itself and of its clients.

use std::sync::Arc;

use causeway_ir::{Plan, Problem};
use tokio::sync::watch;

use crate::clients::Clients;

/// The state of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// The newest valid plan, which is served.
    pub plan: Option<Arc<Plan>>,
    /// The newest plan that an Envoy that is connected has taken whole, and so carries traffic by.
    pub taken: Option<Arc<Plan>>,
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
    clients: Arc<Clients>,
}

impl Handle {
    pub(crate) fn new(clients: Arc<Clients>) -> Self {
        Self { clients }
    }

    /// The state at this moment.
    pub fn status(&self) -> Status {
        self.clients.status_tx.borrow().clone()
    }

    /// The state and its changes.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.clients.status_tx.subscribe()
    }

    /// Waits until every connected Envoy acknowledged or refused this plan; `false` if it is not valid, another one
    /// took its place, or the server stopped.
    ///
    /// # Cancellation
    /// Nothing is lost when it is dropped; it can be called again.
    pub async fn settled(&self, plan: &Arc<Plan>) -> bool {
        self.clients.settled(plan).await
    }
}
