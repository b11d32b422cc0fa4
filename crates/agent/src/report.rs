//! What this pod says of itself in `status.replicas`: at once when the truth has changed, never otherwise, and never in
//! the way of traffic. Numbers that always move are metrics.

use std::sync::Arc;
use std::time::Duration;

use causeway_base::Backoff;
use causeway_base::report::chain;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::agent::{Config, Leave};
use crate::followed::{Followed, State};
use crate::runner::{Runner, Snapshot};

/// How often is looked for what nobody tells of: the health of endpoints.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a new plan may take to run before it is reported that it does not.
const SETTLE: Duration = Duration::from_secs(1);
/// How long the object may be without what was reported before it is reported again.
const DOUBT: Duration = Duration::from_secs(5);
const WRITE_LIMIT: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// Writes one entry of the status.
pub(crate) struct Reporter<F: Followed> {
    followed: Arc<F>,
    api: Api<F::Object>,
    name: String,
    field_manager: String,
    /// Whether another object of the same name is not to be written to.
    keeps: bool,
}

impl<F: Followed> Reporter<F> {
    pub(crate) fn new(client: Client, followed: Arc<F>, config: &Config) -> Self {
        Self {
            followed,
            api: Api::namespaced(client, &config.namespace),
            name: config.name.clone(),
            field_manager: config.field_manager.clone(),
            keeps: config.leave == Leave::Ready,
        }
    }

    /// Reports until aborted.
    pub(crate) async fn run<R: Runner<Plan = F::Plan>>(
        self,
        mut state_rx: watch::Receiver<Arc<State<F>>>,
        runner: Arc<R>,
    ) {
        let mut changes = runner.changes();
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut sent: Option<Value> = None;
        let mut sent_at = Instant::now();
        let mut retries = RETRY.retries();
        let mut not_before = Instant::now();
        loop {
            tokio::select! {
                changed = state_rx.changed() => if changed.is_err() { return },
                change = changes.next() => if change.is_none() { return },
                _ = look.tick() => {}
                () = tokio::time::sleep_until(not_before), if retries.failures() > 0 => {}
            }
            if Instant::now() < not_before {
                continue;
            }
            let (state, snapshot) = settled(&mut state_rx, &*runner, &mut changes).await;
            // Before the object was read there is nothing to write to, nor when another has its name.
            if state.generation.is_none() || state.is_another {
                continue;
            }
            if state.reported != sent && sent_at.elapsed() > DOUBT {
                // Somebody has taken it away or changed it; what is there already costs nothing to write again.
                sent = None;
            }
            let next = self.followed.report(&state, &snapshot);
            if sent.as_ref() == Some(&next) {
                retries.reset();
                continue;
            }
            match timeout(WRITE_LIMIT, self.write(&state, &next)).await {
                Ok(Ok(())) => {
                    (sent, sent_at) = (Some(next), Instant::now());
                    retries.reset();
                }
                failed => {
                    let is_refused =
                        failed.as_ref().is_ok_and(|result| result.as_ref().is_err_and(is_refused));
                    let error = match failed {
                        Ok(Err(error)) => chain(&error),
                        _ => "the API server does not answer".to_owned(),
                    };
                    not_before = Instant::now() + retries.next_delay();
                    // An API server that is away is nothing that this pod's owner could mend.
                    if is_refused && retries.failures() == 1 {
                        tracing::warn!(
                            error,
                            "the API server refuses this pod's report, so its status is not true: see whether its \
                             ServiceAccount was deleted since the pod began, and whether its Role is there"
                        );
                    } else {
                        tracing::debug!(error, "the status could not be written; trying again");
                    }
                }
            }
        }
    }

    async fn write(&self, state: &State<F>, entry: &Value) -> Result<(), kube::Error> {
        let mut patch = json!({
            "apiVersion": F::Object::api_version(&()),
            "kind": F::Object::kind(&()),
            "metadata": {"name": self.name},
            "status": {"replicas": [entry]},
        });
        if let (true, Some(uid)) = (self.keeps, &state.uid) {
            // The name may be another's by now.
            patch["metadata"]["uid"] = json!(uid);
        }
        let params = PatchParams::apply(&self.field_manager).force();
        self.api.patch_status(&self.name, &params, &Patch::Apply(&patch)).await.map(drop)
    }
}

/// Whether this pod's token or its rights are not taken.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403))
}

/// What is wanted and how it stands, once a plan that was just given out runs or was refused: what is over in a moment
/// is not worth a report.
async fn settled<F: Followed, R: Runner<Plan = F::Plan>>(
    state_rx: &mut watch::Receiver<Arc<State<F>>>,
    runner: &R,
    changes: &mut BoxStream<'static, ()>,
) -> (Arc<State<F>>, Snapshot<F::Plan>) {
    let deadline = Instant::now() + SETTLE;
    loop {
        let state = Arc::clone(&state_rx.borrow_and_update());
        let snapshot = runner.snapshot().await;
        let runs = match (&state.plan, &snapshot.plan) {
            (Some(wanted), Some(runs)) => Arc::ptr_eq(wanted, runs) || wanted == runs,
            (wanted, _) => wanted.is_none(),
        };
        if runs || snapshot.refused.is_some() || Instant::now() >= deadline {
            return (state, snapshot);
        }
        tokio::select! {
            _ = state_rx.changed() => {}
            _ = changes.next() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}
