//! What this proxy says of itself in `status.replicas`: at once when it matters, seldom for mere counts, and never in the
//! way of traffic.

use std::sync::Arc;
use std::time::Duration;

use causeway_api::{BackendStatus, Engine, ProxyServer, ReplicaStatus, names};
use causeway_controllers::framework::backoff::{Backoff, random};
use causeway_controllers::vlan::proxy::translate::{BackendState, cluster_name};
use causeway_ir::Plan;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::carrier::{Snapshot, View};

/// Between two reports that differ in connection counts only.
const COUNTS_EVERY: Duration = Duration::from_secs(5);
const WRITE_LIMIT: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), most: Duration::from_secs(30) };

/// What the pilot knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// The generation that was last read.
    pub generation: Option<i64>,
    /// The plan that it means.
    pub plan: Option<Arc<Plan>>,
    /// What is wrong with the spec.
    pub refused: Option<String>,
    /// Whether the isolated network is there.
    pub attached: Option<bool>,
    /// What else is wrong.
    pub trouble: Option<String>,
    pub backends: Vec<BackendState>,
}

/// Writes one entry of the status.
pub struct Reporter {
    api: Api<ProxyServer>,
    proxy: String,
    pod: String,
}

impl Reporter {
    pub fn new(client: Client, namespace: &str, proxy: &str, pod: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), proxy: proxy.to_owned(), pod: pod.to_owned() }
    }

    /// Reports until aborted.
    pub async fn run(self, mut said_rx: watch::Receiver<Arc<Said>>, view: View) {
        let mut changes = view.changes();
        let mut counts = tokio::time::interval(COUNTS_EVERY);
        let mut sent: Option<ReplicaStatus> = None;
        let mut failures = 0;
        let mut not_before = Instant::now();
        loop {
            tokio::select! {
                changed = said_rx.changed() => if changed.is_err() { return },
                more = changes.next() => if !more { return },
                _ = counts.tick() => {}
                () = tokio::time::sleep_until(not_before), if failures > 0 => {}
            }
            let said = Arc::clone(&said_rx.borrow_and_update());
            let snapshot = view.snapshot().await;
            // Before the object was read there is nothing to write to.
            if said.generation.is_none() || Instant::now() < not_before {
                continue;
            }
            let next =
                ReplicaStatus { engine: view.kind(), ..entry(&self.proxy, &self.pod, &said, &snapshot) };
            if sent.as_ref() == Some(&next) {
                failures = 0;
                continue;
            }
            let written = timeout(WRITE_LIMIT, self.write(&next)).await;
            match written
                .map_err(|_| "the API server does not answer".to_owned())
                .and_then(|w| w.map_err(|e| e.to_string()))
            {
                Ok(()) => {
                    sent = Some(next);
                    failures = 0;
                }
                Err(error) => {
                    failures += 1;
                    not_before = Instant::now() + RETRY.delay(failures, random());
                    tracing::debug!(%error, "the status could not be written; trying again");
                }
            }
        }
    }

    async fn write(&self, entry: &ReplicaStatus) -> Result<(), kube::Error> {
        let patch = json!({
            "apiVersion": names::API_VERSION, "kind": "ProxyServer", "metadata": {"name": self.proxy},
            "status": {"replicas": [entry]},
        });
        let params = PatchParams::apply(&format!("causeway-proxy-{}", self.pod)).force();
        self.api.patch_status(&self.proxy, &params, &Patch::Apply(&patch)).await.map(drop)
    }
}

/// The entry that says all this.
pub fn entry(proxy: &str, pod: &str, said: &Said, snapshot: &Snapshot) -> ReplicaStatus {
    let runs = match (&said.plan, &snapshot.plan) {
        (Some(wanted), Some(runs)) => Arc::ptr_eq(wanted, runs) || wanted == runs,
        _ => false,
    };
    let refused = said.refused.clone().or_else(|| snapshot.refused.clone());
    let trouble: Vec<String> =
        [&said.trouble, &snapshot.trouble].into_iter().filter_map(Clone::clone).collect();
    let backends = said.backends.iter().map(|backend| BackendStatus {
        name: backend.name.clone(),
        ready_endpoints: i32::try_from(backend.ready_endpoints).unwrap_or(i32::MAX),
        connections: snapshot.connections.get(&cluster_name(proxy, &backend.name)).copied(),
        message: backend.message.clone(),
    });
    ReplicaStatus {
        name: pod.to_owned(),
        observed_generation: said.generation,
        engine: Engine::Native,
        serving: runs && refused.is_none() && snapshot.trouble.is_none(),
        listening: snapshot.listening.clone(),
        attached: said.attached,
        refused,
        trouble: (!trouble.is_empty()).then(|| trouble.join("; ")),
        backends: backends.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_only_when_the_wanted_plan_runs_without_trouble() {
        let plan = Arc::new(Plan::default());
        let backends = vec![BackendState { name: "a".into(), ready_endpoints: 2, message: None }];
        let said = Said { generation: Some(3), plan: Some(Arc::clone(&plan)), backends, ..Said::default() };
        let snapshot = Snapshot {
            plan: Some(plan),
            connections: [("edge-a".to_owned(), 7)].into(),
            ..Snapshot::default()
        };
        let good = entry("edge", "pod-1", &said, &snapshot);
        assert!(good.serving);
        assert_eq!((good.backends[0].ready_endpoints, good.backends[0].connections), (2, Some(7)));

        let taken = Snapshot { trouble: Some("port 443 is taken".into()), ..snapshot.clone() };
        let bad = entry("edge", "pod-1", &said, &taken);
        assert_eq!((bad.serving, bad.trouble.as_deref()), (false, Some("port 443 is taken")));
        let refused = Said { refused: Some("spec.replicas: no".into()), ..said.clone() };
        assert!(!entry("edge", "pod-1", &refused, &snapshot).serving);
        assert!(!entry("edge", "pod-1", &said, &Snapshot::default()).serving);
    }
}
