//! Deleted CRDs: their objects go first, then the CRD itself.

use std::sync::Arc;

use super::edit::drop_finalizer;
use crate::admission::CRD_FINALIZER;
use crate::crd;
use crate::error::ApiError;
use crate::object;
use crate::rest::delete::{DeleteOptions, remove, unasked};
use crate::server::Server;
use crate::store::{Change, ChangeKind, GroupResource, Key};

/// A CRD that begins to go, or an object of a kind that may be going.
pub(super) fn concerns(server: &Server, change: &Change) -> bool {
    let key = &change.object.key;
    if key.resource != crd::collection() {
        return change.kind == ChangeKind::Deleted && key.resource.group.contains('.');
    }
    // The change is seen here before the request that made it goes on, so the server may not know of it yet.
    if let Some(crd) = server.store.get(key) {
        server.note_going_away(&crd.value(), false);
    }
    true
}

pub(super) async fn sweep(server: Arc<Server>) -> bool {
    let mut done = true;
    for (group, plural) in server.going_away() {
        let key = Key::new(&crd::collection(), "", &format!("{plural}.{group}"));
        if let Err(error) = empty(&server, &key, &group, &plural).await {
            tracing::warn!(crd = &*key.name, %error, "the objects of a deleted CRD could not be removed");
            done = false;
        }
    }
    done
}

async fn empty(server: &Server, crd: &Key, group: &str, plural: &str) -> Result<(), ApiError> {
    let collection = GroupResource::new(group, plural);
    if let Some(resource) = server.catalog.listing().find_any_version(group, plural) {
        for stored in server.store.list(&collection, None).items {
            if object::is_terminating(&stored.value()) {
                continue;
            }
            match remove(server, &resource, &stored.key, &DeleteOptions::default(), unasked).await {
                Ok(_) => {}
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
    }
    if server.store.list(&collection, None).items.is_empty() {
        drop_finalizer(server, crd, CRD_FINALIZER).await.map_err(|e| ApiError::internal(e.to_string()))?;
    }
    Ok(())
}
