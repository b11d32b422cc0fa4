//! An entry of a ConfigMap that this pod writes and others read: what it has to tell that is too much for a status. Written
//! when it has changed, and once in a while in any case.

use std::time::Duration;

use causeway_base::report::chain;
use causeway_base::{Backoff, backoff::spread};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

const WRITE_LIMIT: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// The entry.
pub struct OwnEntry {
    /// Who writes it.
    pub client: Client,
    /// The ConfigMap's namespace.
    pub namespace: String,
    /// The ConfigMap, which must be there.
    pub config_map: String,
    /// The entry's key.
    pub key: String,
    /// Between two writes, at least.
    pub rest: Duration,
    /// After this time the same is written once more, which changes nothing unless somebody has taken it away.
    pub again: Duration,
}

impl OwnEntry {
    /// Writes the newest value until the channel ends.
    pub async fn keep<T>(self, mut value_rx: watch::Receiver<T>, write: impl Fn(&T) -> String) {
        let api: Api<ConfigMap> = Api::namespaced(self.client, &self.namespace);
        let mut retries = RETRY.retries();
        loop {
            let text = write(&value_rx.borrow_and_update());
            let patch = json!({ "data": { &self.key: text } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            match timeout(WRITE_LIMIT, api.patch(&self.config_map, &params, &patch)).await {
                Ok(Ok(_)) => retries.reset(),
                failed => {
                    let error = match failed {
                        Ok(Err(error)) => chain(&error),
                        _ => "the API server does not answer".to_owned(),
                    };
                    tracing::debug!(
                        error,
                        map = self.config_map,
                        "an entry could not be written; trying again"
                    );
                    tokio::time::sleep(retries.next_delay()).await;
                    continue;
                }
            }
            tokio::time::sleep(self.rest).await;
            if let Ok(Err(_)) = timeout(spread(self.again), value_rx.changed()).await {
                return;
            }
        }
    }
}
