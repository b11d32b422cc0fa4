//! The operator's data directory: held together with other operators of the same cluster, and with nobody else. What runs
//! for objects of another cluster would be taken for left over, and removed.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use causeway_base::Backoff;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};

use crate::parts::data_dir::{self, Held};

/// Between two tries to ask an API server that is away.
const RETRY: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10));
/// The namespace that every cluster has, and whose uid is taken for the cluster's id.
const NAMESPACE: &str = "kube-system";

/// Holds the directory, for the cluster that the client talks to. An API server that is away is waited for.
///
/// # Errors
/// When the directory is somebody else's, or the API server does not say which cluster it is.
pub(super) async fn take(dir: &Path, client: Client) -> anyhow::Result<Held> {
    let held = data_dir::share(dir)?;
    let namespaces: Api<Namespace> = Api::all(client);
    let mut retries = RETRY.retries();
    let cluster = loop {
        match namespaces.get(NAMESPACE).await {
            Ok(found) => break found.uid().context("the API server gives objects no uid")?,
            Err(error @ kube::Error::Api(_)) => {
                return Err(error).with_context(|| {
                    format!(
                        "can't tell this cluster from others: allow `get` on the namespace {NAMESPACE}, or do without containers with --container-runtime none"
                    )
                });
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "the API server does not answer and is asked again");
            }
        }
        tokio::time::sleep(retries.next_delay()).await;
    };
    held.claim_for(&cluster)?;
    Ok(held)
}
