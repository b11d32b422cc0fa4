//! The garbage collector: objects go when all their owners are gone, before their owner with foreground deletion, or
//! are let free with orphaning.

mod graph;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;

use super::RETRY;
use super::edit::{drop_finalizer, edit};
use crate::error::ApiError;
use crate::rest::delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, remove, unasked};
use crate::server::Server;
use crate::store::{Key, WriteError};
use graph::Graph;

pub(super) async fn run(server: Arc<Server>) {
    let mut feed = server.store.feed();
    let mut graph = Graph::read(&server.store);
    let mut dirty: HashSet<Key> = graph.keys();
    loop {
        let mut again = HashSet::new();
        for key in std::mem::take(&mut dirty) {
            if let Err(error) = settle(&server, &graph, &key).await {
                tracing::warn!(object = ?key, %error, "garbage collection will try again");
                again.insert(key);
            }
        }
        let pause = async {
            if again.is_empty() { std::future::pending().await } else { tokio::time::sleep(RETRY).await }
        };
        tokio::select! {
            () = server.shutdown.cancelled() => return,
            () = pause => {}
            change = feed.recv() => match change {
                Ok(change) => graph.note(&change, &mut dirty),
                Err(RecvError::Lagged(_)) => {
                    graph = Graph::read(&server.store);
                    dirty = graph.keys();
                }
                Err(RecvError::Closed) => return,
            },
        }
        while let Ok(change) = feed.try_recv() {
            graph.note(&change, &mut dirty);
        }
        dirty.extend(again);
    }
}

/// Brings one object to where its owners, or its dependents, allow it to be.
async fn settle(server: &Server, graph: &Graph, key: &Key) -> Result<(), ApiError> {
    let Some(node) = graph.node(key) else { return Ok(()) };
    match node.waits_for {
        Some(ORPHAN) => return orphan(server, graph, key, &node.uid).await,
        Some(_) => return foreground(server, graph, key, &node.uid).await,
        None => {}
    }
    if node.owners.is_empty() || node.terminating {
        return Ok(());
    }
    let present: Vec<_> = node.owners.iter().filter_map(|owner| graph.by_uid(&owner.uid)).collect();
    if present.iter().any(|owner| owner.waits_for != Some(FOREGROUND)) {
        let gone: Vec<&str> =
            node.owners.iter().map(|o| o.uid.as_str()).filter(|uid| graph.by_uid(uid).is_none()).collect();
        return if gone.is_empty() { Ok(()) } else { forget_owners(server, key, &gone).await };
    }
    let propagation = if present.is_empty() { Propagation::Background } else { Propagation::Foreground };
    delete(server, key, &node.uid, propagation).await
}

/// Deletes dependents first; the owner goes when none is left that blocks it.
async fn foreground(server: &Server, graph: &Graph, key: &Key, uid: &str) -> Result<(), ApiError> {
    let mut blocked = false;
    for (dependent, node) in graph.dependents_of(uid) {
        let others = node
            .owners
            .iter()
            .filter(|o| o.uid != uid)
            .filter_map(|o| graph.by_uid(&o.uid))
            .any(|o| o.waits_for != Some(FOREGROUND));
        if others {
            forget_owners(server, dependent, &[uid]).await?;
            continue;
        }
        if !node.terminating {
            delete(server, dependent, &node.uid, Propagation::Foreground).await?;
        }
        let blocks = node.owners.iter().any(|o| o.uid == uid && o.blocks);
        blocked |= blocks && server.store.get(dependent).is_some();
    }
    if blocked { Ok(()) } else { done(drop_finalizer(server, key, FOREGROUND).await) }
}

async fn orphan(server: &Server, graph: &Graph, key: &Key, uid: &str) -> Result<(), ApiError> {
    for (dependent, _) in graph.dependents_of(uid) {
        forget_owners(server, dependent, &[uid]).await?;
    }
    done(drop_finalizer(server, key, ORPHAN).await)
}

async fn forget_owners(server: &Server, key: &Key, uids: &[&str]) -> Result<(), ApiError> {
    done(
        edit(server, key, |value| {
            let Some(meta) = value["metadata"].as_object_mut() else { return false };
            let Some(owners) = meta.get_mut("ownerReferences").and_then(Value::as_array_mut) else {
                return false;
            };
            let before = owners.len();
            owners.retain(|o| !uids.iter().any(|uid| o["uid"] == *uid));
            let (changed, emptied) = (owners.len() != before, owners.is_empty());
            if emptied {
                meta.remove("ownerReferences");
            }
            changed
        })
        .await,
    )
}

/// Deletes exactly the object the graph knew, not a new one of the same name.
async fn delete(server: &Server, key: &Key, uid: &str, propagation: Propagation) -> Result<(), ApiError> {
    let listing = server.catalog.listing();
    let Some(resource) = listing.find_any_version(&key.resource.group, &key.resource.plural) else {
        return Ok(());
    };
    let options = DeleteOptions { uid: Some(uid.to_owned()), propagation, ..DeleteOptions::default() };
    match remove(server, &resource, key, &options, unasked).await {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

fn done(outcome: Result<(), WriteError>) -> Result<(), ApiError> {
    outcome.map_err(|error| ApiError::internal(error.to_string()))
}
