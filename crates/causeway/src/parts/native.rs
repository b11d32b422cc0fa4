//! The engine in this process as what runs the plans of an agent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use causeway_agent::{Runner, Snapshot, changes_of};
use causeway_engine::admin::{METRICS_TYPE, metrics_text};
use causeway_engine::handover::{Handed, Purpose};
use causeway_engine::{ClusterStatus, Engine, Handle, Options};
use causeway_ir::Plan;
use futures::stream::BoxStream;
use tokio::sync::{Mutex, watch};

use super::plan_check::in_words;

/// The engine in this process.
pub(crate) struct Native {
    handle: Handle,
    /// Gone once it was drained.
    engine: Mutex<Option<Engine>>,
    /// All that it was asked for listened before, so it carries traffic though a newer plan asks for a port that can't be had.
    carried: AtomicBool,
}

impl Native {
    pub(crate) fn start(
        plan_rx: watch::Receiver<Option<Arc<Plan>>>,
        options: &Options,
        inherited: Vec<Handed>,
    ) -> anyhow::Result<Self> {
        let engine = Engine::start_with(plan_rx, options, inherited).context("can't start the engine")?;
        Ok(Self {
            handle: engine.handle(),
            engine: Mutex::new(Some(engine)),
            carried: AtomicBool::new(false),
        })
    }

    /// For its admin paths.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Copies of the sockets that it listens with.
    pub(crate) async fn sockets(&self) -> Vec<Handed> {
        self.handle.sockets().await
    }

    /// Takes no more datagrams on these, which somebody else takes now.
    pub(crate) fn leave_datagrams(&self, left: &[Purpose]) {
        self.handle.leave_datagrams(left);
    }

    /// A pod that carried everything once is not given up for what an edit adds: its status says what is missing.
    fn lacks(&self) -> Vec<String> {
        let status = self.handle.status();
        let missing = status.missing();
        if missing.is_empty() {
            self.carried.store(true, Ordering::Relaxed);
        }
        let carries = !status.draining && status.listeners.iter().any(|listener| listener.error.is_none());
        if carries && self.carried.load(Ordering::Relaxed) { Vec::new() } else { missing }
    }

    fn now(&self) -> Snapshot<Plan> {
        let status = self.handle.status();
        let mut listening: Vec<String> =
            status.listeners.iter().filter_map(|l| Some(l.address?.to_string())).collect();
        listening.sort();
        let failed = status.listeners.iter().filter_map(|l| l.error.clone());
        let failed: Vec<String> =
            failed.chain(status.missing_certificates.iter().map(ToString::to_string)).collect();
        Snapshot {
            plan: status.plan,
            listening,
            refused: status.refused.map(|(_, problems)| in_words(&problems)),
            trouble: (!failed.is_empty()).then(|| failed.join("; ")),
            healthy: self.healthy(),
            ..Snapshot::default()
        }
    }

    /// The endpoints that take connections, of the clusters that are checked.
    fn healthy(&self) -> HashMap<String, usize> {
        let Some(plan) = self.handle.status().plan else { return HashMap::new() };
        let checked: HashSet<_> =
            plan.clusters.iter().filter(|c| c.health_check.is_some()).map(|c| &c.name).collect();
        if checked.is_empty() {
            return HashMap::new();
        }
        let clusters = self.handle.clusters().into_iter().filter(|cluster| checked.contains(&cluster.name));
        let healthy =
            |cluster: &ClusterStatus| cluster.endpoints.iter().filter(|e| e.ready && e.healthy).count();
        clusters.map(|cluster| (cluster.name.to_string(), healthy(&cluster))).collect()
    }
}

impl Runner for Native {
    type Plan = Plan;

    fn missing(&self) -> Vec<String> {
        self.lacks()
    }

    async fn snapshot(&self) -> Snapshot<Plan> {
        self.now()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        changes_of(self.handle.watch())
    }

    fn spec_refused(&self) {
        self.handle.count_refused();
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        Some((METRICS_TYPE, metrics_text(&self.handle)?))
    }

    fn drain_limit(&self) -> Duration {
        self.handle.status().plan.map(|plan| plan.drain_timeout).unwrap_or_default()
    }

    fn say_farewell(&self) {
        self.handle.say_farewell();
    }

    async fn drain(&self) {
        if let Some(engine) = self.engine.lock().await.take() {
            engine.shutdown().await;
        }
    }
}
