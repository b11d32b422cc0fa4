//! A change the server makes to a stored object on its own account, past validation and ownership.

use serde_json::Value;

use crate::rest::is_finished;
use crate::server::Server;
use crate::store::{Expect, Key, Mutation, WriteError};

/// Changes an object until `change` says there is nothing to do (false) or the write went through. An object that is
/// being deleted and has nothing left to wait for is removed.
pub(super) async fn edit(
    server: &Server,
    key: &Key,
    mut change: impl FnMut(&mut Value) -> bool,
) -> Result<(), WriteError> {
    loop {
        let Some(stored) = server.store.get(key) else { return Ok(()) };
        let mut value = stored.value();
        if !change(&mut value) {
            return Ok(());
        }
        let mutation = if is_finished(&value) { Mutation::Delete(value) } else { Mutation::Put(value) };
        match server.store.write(key.clone(), Expect::Revision(stored.revision), mutation).await {
            Ok(stored) => {
                server.after_write(&stored);
                return Ok(());
            }
            Err(WriteError::Stale) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes one finalizer.
pub(super) async fn drop_finalizer(server: &Server, key: &Key, finalizer: &str) -> Result<(), WriteError> {
    edit(server, key, |value| {
        let Some(list) = value["metadata"]["finalizers"].as_array_mut() else { return false };
        let before = list.len();
        list.retain(|f| f != finalizer);
        let (changed, emptied) = (list.len() != before, list.is_empty());
        if emptied && let Some(meta) = value["metadata"].as_object_mut() {
            meta.remove("finalizers");
        }
        changed
    })
    .await
}
