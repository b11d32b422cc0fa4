//! One discovery stream: moves requests into a session and responses out of it while there is room. A client that
//! does not read holds one response and nothing more; when it reads again it gets what is newest then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3 as proto;
use futures::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::Status as Refusal;

use crate::clients::{Clients, Entry};
use crate::resource::Kind;
use crate::session::{MOST_NAMES, Names, Next, Request, Response, Session};
use crate::snapshot::Snapshot;
use crate::status::ClientStatus;

/// What a stream needs of the server.
pub(crate) struct Context {
    pub(crate) snapshots_rx: watch::Receiver<Arc<Snapshot>>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) stop: CancellationToken,
    pub(crate) address: String,
    /// Given back when the stream ends.
    pub(crate) _permit: OwnedSemaphorePermit,
}

/// A message of either variant.
pub(crate) trait Message {
    type Answer: Send + 'static;
    const DELTA: bool;
    fn node(&self) -> Option<&str>;
    /// `None` for a type of resource that is not served here.
    fn into_request(self) -> Option<Request>;
    fn answer(response: Response) -> Self::Answer;
}

/// Serves a stream to its end.
pub(crate) async fn run<M: Message>(
    mut context: Context,
    mut requests: impl Stream<Item = Result<M, Refusal>> + Unpin,
    answer_tx: mpsc::Sender<Result<M::Answer, Refusal>>,
) {
    let mut session = Session::new(M::DELTA, Instant::now());
    let mut snapshot = context.snapshots_rx.borrow_and_update().clone();
    let mut progress = Progress {
        status: ClientStatus {
            node: String::new(),
            address: std::mem::take(&mut context.address),
            up_to_date: false,
            nack: None,
            delta: M::DELTA,
        },
        settled: None,
        entry: None,
    };
    loop {
        // Worked out only while there is room for it, so that it is the newest when it goes.
        let mut wake = None;
        if let Ok(permit) = answer_tx.try_reserve() {
            match session.next(&snapshot, Instant::now()) {
                Next::Send(response) => permit.send(Ok(M::answer(response))),
                Next::Wait(until) => wake = Some(until),
                Next::Nothing => {}
            }
        }
        progress.show(&session, &snapshot, &context.clients);
        let full = answer_tx.capacity() == 0;
        tokio::select! {
            request = requests.next() => {
                let Some(Ok(message)) = request else { break };
                if let Some(node) = message.node() {
                    if progress.status.node.is_empty() && !M::DELTA {
                        session.remember(context.clients.recall(node), &snapshot);
                    }
                    node.clone_into(&mut progress.status.node);
                }
                if let Some(request) = message.into_request()
                    && !session.receive(request, Instant::now())
                {
                    let why = format!("more than {MOST_NAMES} names are asked for");
                    // The client may be gone; the stream ends either way.
                    let _ = answer_tx.try_send(Err(Refusal::resource_exhausted(why)));
                    break;
                }
            }
            changed = context.snapshots_rx.changed() => {
                if changed.is_err() {
                    break;
                }
                snapshot = context.snapshots_rx.borrow_and_update().clone();
            }
            permit = answer_tx.reserve(), if full => {
                if permit.is_err() {
                    break;
                }
            }
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => {}
            () = context.stop.cancelled() => break,
        }
    }
    if !M::DELTA && !progress.status.node.is_empty() {
        context.clients.remember(&progress.status.node, session.clusters());
    }
}

/// How far this client is, as its entry says.
struct Progress {
    status: ClientStatus,
    settled: Option<u64>,
    /// Once the client has said who it is.
    entry: Option<Entry>,
}

impl Progress {
    fn show(&mut self, session: &Session, snapshot: &Snapshot, clients: &Arc<Clients>) {
        let settled = session.is_settled(snapshot).then_some(snapshot.number);
        let nack = session.nacks().next().cloned();
        let up_to_date = settled.is_some() && nack.is_none();
        let entry = match &mut self.entry {
            None if self.status.node.is_empty() => return,
            None => self.entry.insert(clients.add(self.status.clone())),
            Some(entry) => entry,
        };
        if (settled, up_to_date, &nack) == (self.settled, self.status.up_to_date, &self.status.nack) {
            return;
        }
        if let Some(nack) = &nack
            && self.status.nack.as_ref() != Some(nack)
        {
            let (node, kind, names) = (&self.status.node, nack.kind, nack.resources.join(", "));
            tracing::warn!(node, kind, names, message = nack.message, "Envoy refused a configuration");
        }
        (self.settled, self.status.up_to_date, self.status.nack) = (settled, up_to_date, nack);
        entry.update(&self.status, settled);
    }
}

impl Message for proto::DiscoveryRequest {
    type Answer = proto::DiscoveryResponse;
    const DELTA: bool = false;

    fn node(&self) -> Option<&str> {
        self.node.as_ref().map(|node| node.id.as_str())
    }

    fn into_request(self) -> Option<Request> {
        Some(Request {
            kind: Kind::from_type_url(&self.type_url)?,
            names: Names::Exactly(self.resource_names),
            initial_versions: HashMap::new(),
            nonce: self.response_nonce,
            error: self.error_detail.map(|status| status.message),
        })
    }

    fn answer(response: Response) -> Self::Answer {
        proto::DiscoveryResponse {
            version_info: response.version,
            resources: response.resources.iter().map(|resource| resource.body.clone()).collect(),
            type_url: response.kind.type_url().to_owned(),
            nonce: response.nonce,
            ..proto::DiscoveryResponse::default()
        }
    }
}

impl Message for proto::DeltaDiscoveryRequest {
    type Answer = proto::DeltaDiscoveryResponse;
    const DELTA: bool = true;

    fn node(&self) -> Option<&str> {
        self.node.as_ref().map(|node| node.id.as_str())
    }

    fn into_request(self) -> Option<Request> {
        Some(Request {
            kind: Kind::from_type_url(&self.type_url)?,
            names: Names::Change {
                subscribe: self.resource_names_subscribe,
                unsubscribe: self.resource_names_unsubscribe,
            },
            initial_versions: self.initial_resource_versions,
            nonce: self.response_nonce,
            error: self.error_detail.map(|status| status.message),
        })
    }

    fn answer(response: Response) -> Self::Answer {
        let resources = response.resources.iter().map(|resource| proto::Resource {
            name: resource.name.clone(),
            version: resource.version.clone(),
            resource: Some(resource.body.clone()),
            ..proto::Resource::default()
        });
        proto::DeltaDiscoveryResponse {
            system_version_info: response.version,
            resources: resources.collect(),
            type_url: response.kind.type_url().to_owned(),
            removed_resources: response.removed,
            nonce: response.nonce,
            ..proto::DeltaDiscoveryResponse::default()
        }
    }
}
