//! What carries a proxy's traffic: our own engine, or an Envoy beside this process that is fed by xDS.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use causeway_agent::{Runner, Snapshot, changes_of};
use causeway_engine::admin::{METRICS_TYPE, metrics_text};
use causeway_engine::handover::{Handed, Purpose};
use causeway_engine::{ClusterStatus, Engine, Handle, Options};
use causeway_ir::Plan;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::{Mutex, watch};

use super::envoy::Envoy;
use crate::parts::plan_check::in_words;

/// Either of the two.
pub(crate) enum Carrier {
    Native(Native),
    Envoy(Envoy),
}

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

    /// A pod that carried everything once is not given up for what an edit adds: its status says what is missing.
    fn missing(&self) -> Vec<String> {
        let status = self.handle.status();
        let missing = status.missing();
        if missing.is_empty() {
            self.carried.store(true, Ordering::Relaxed);
        }
        let carries = !status.draining && status.listeners.iter().any(|listener| listener.error.is_none());
        if carries && self.carried.load(Ordering::Relaxed) { Vec::new() } else { missing }
    }

    fn snapshot(&self) -> Snapshot<Plan> {
        let status = self.handle.status();
        let mut listening: Vec<String> =
            status.listeners.iter().filter_map(|l| Some(l.address?.to_string())).collect();
        listening.sort();
        let failed: Vec<&str> = status.listeners.iter().filter_map(|l| l.error.as_deref()).collect();
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

impl Carrier {
    /// Waits until traffic passes.
    pub(super) async fn serves(&self) {
        let mut changes = self.changes();
        while !self.missing().is_empty() && changes.next().await.is_some() {}
    }

    /// Copies of the sockets that a successor can use: those that are not on this pod's own address.
    pub(super) async fn sockets(&self, pod_ip: IpAddr) -> Vec<Handed> {
        let Self::Native(native) = self else { return Vec::new() };
        let mut sockets = native.handle.sockets().await;
        sockets.retain(
            |handed| matches!(&handed.purpose, Purpose::Listener { bind, .. } if bind.ip() != pod_ip),
        );
        sockets
    }

    /// A successor has those sockets and serves.
    pub(super) async fn leave_datagrams(&self, pod_ip: IpAddr) {
        let left: Vec<_> = self.sockets(pod_ip).await.into_iter().map(|handed| handed.purpose).collect();
        if let Self::Native(native) = self {
            native.handle.leave_datagrams(&left);
        }
    }
}

impl Runner for Carrier {
    type Plan = Plan;

    fn missing(&self) -> Vec<String> {
        match self {
            Self::Native(native) => native.missing(),
            Self::Envoy(envoy) => envoy.missing(),
        }
    }

    async fn snapshot(&self) -> Snapshot<Plan> {
        match self {
            Self::Native(native) => native.snapshot(),
            Self::Envoy(envoy) => envoy.snapshot().await,
        }
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        match self {
            Self::Native(native) => changes_of(native.handle.watch()),
            Self::Envoy(envoy) => envoy.changes(),
        }
    }

    fn spec_refused(&self) {
        if let Self::Native(native) = self {
            native.handle.count_refused();
        }
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Native(native) => Some((METRICS_TYPE, metrics_text(&native.handle)?)),
            Self::Envoy(envoy) => Some(("text/plain; version=0.0.4", envoy.metrics().await?)),
        }
    }

    fn drain_limit(&self) -> Duration {
        match self {
            Self::Native(native) => {
                native.handle.status().plan.map(|plan| plan.drain_timeout).unwrap_or_default()
            }
            Self::Envoy(envoy) => envoy.drain_limit(),
        }
    }

    async fn drain(&self) {
        match self {
            Self::Native(native) => {
                if let Some(engine) = native.engine.lock().await.take() {
                    engine.shutdown().await;
                }
            }
            Self::Envoy(envoy) => envoy.drain().await,
        }
    }
}
