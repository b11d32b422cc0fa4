//! What this pod says of itself in `status.replicas`: at once when it matters, seldom for mere counts, and never in the
//! way of traffic.

use std::sync::Arc;
use std::time::Duration;

use causeway_base::Backoff;
use causeway_base::report::chain;
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::agent::Config;
use crate::followed::{Followed, State};
use crate::runner::Runner;

/// Between two reports that differ in counts only.
const COUNTS_EVERY: Duration = Duration::from_secs(5);
const WRITE_LIMIT: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// Writes one entry of the status.
pub(crate) struct Reporter<F: Followed> {
    followed: Arc<F>,
    api: Api<F::Object>,
    name: String,
    field_manager: String,
}

impl<F: Followed> Reporter<F> {
    pub(crate) fn new(client: Client, followed: Arc<F>, config: &Config) -> Self {
        Self {
            followed,
            api: Api::namespaced(client, &config.namespace),
            name: config.name.clone(),
            field_manager: config.field_manager.clone(),
        }
    }

    /// Reports until aborted.
    pub(crate) async fn run<R: Runner<Plan = F::Plan>>(
        self,
        mut state_rx: watch::Receiver<Arc<State<F>>>,
        runner: Arc<R>,
    ) {
        let mut changes = runner.changes();
        let mut counts = tokio::time::interval(COUNTS_EVERY);
        let mut sent: Option<Value> = None;
        let mut retries = RETRY.retries();
        let mut not_before = Instant::now();
        loop {
            tokio::select! {
                changed = state_rx.changed() => if changed.is_err() { return },
                change = changes.next() => if change.is_none() { return },
                _ = counts.tick() => {}
                () = tokio::time::sleep_until(not_before), if retries.failures() > 0 => {}
            }
            let state = Arc::clone(&state_rx.borrow_and_update());
            // Before the object was read there is nothing to write to.
            if state.generation.is_none() || Instant::now() < not_before {
                continue;
            }
            let next = self.followed.report(&state, &runner.snapshot().await);
            if sent.as_ref() == Some(&next) {
                retries.reset();
                continue;
            }
            match timeout(WRITE_LIMIT, self.write(&next)).await {
                Ok(Ok(())) => {
                    sent = Some(next);
                    retries.reset();
                }
                failed => {
                    let error = match failed {
                        Ok(Err(error)) => chain(&error),
                        _ => "the API server does not answer".to_owned(),
                    };
                    not_before = Instant::now() + retries.next_delay();
                    tracing::debug!(error, "the status could not be written; trying again");
                }
            }
        }
    }

    async fn write(&self, entry: &Value) -> Result<(), kube::Error> {
        let patch = json!({
            "apiVersion": F::Object::api_version(&()),
            "kind": F::Object::kind(&()),
            "metadata": {"name": self.name},
            "status": {"replicas": [entry]},
        });
        let params = PatchParams::apply(&self.field_manager).force();
        self.api.patch_status(&self.name, &params, &Patch::Apply(&patch)).await.map(drop)
    }
}
