//! What carries the traffic, and how it looks from outside: ready or not and why, addresses, connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_engine::{AccessLog, Engine, Handle, Options};
use causeway_ir::Plan;
use tokio::sync::watch;

/// The running engine.
pub struct Carrier {
    engine: Engine,
    view: View,
}

/// The engine from outside; cheap to clone.
#[derive(Clone)]
pub struct View {
    handle: Handle,
    draining: Arc<AtomicBool>,
}

/// The engine at this moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The plan that runs.
    pub plan: Option<Arc<Plan>>,
    /// Addresses that are listened on.
    pub listening: Vec<String>,
    /// Why it stays with an earlier plan.
    pub refused: Option<String>,
    /// What keeps it from its work.
    pub trouble: Option<String>,
    /// Open connections by cluster.
    pub connections: HashMap<String, i64>,
}

impl Carrier {
    pub fn native(
        plan_rx: watch::Receiver<Option<Arc<Plan>>>,
        workers: usize,
        access_log: AccessLog,
    ) -> anyhow::Result<Self> {
        let engine = Engine::start(plan_rx, &Options { workers, access_log })?;
        let view = View { handle: engine.handle(), draining: Arc::default() };
        Ok(Self { engine, view })
    }

    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Takes nothing new, lets connections end until the plan's drain timeout, and stops.
    pub async fn shutdown(self) {
        self.engine.shutdown().await;
    }
}

impl View {
    /// The engine's own handle, for its admin paths.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// From now on it is not ready.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Why it is not ready; empty if it is.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = self.handle.status().missing();
        if self.draining.load(Ordering::Relaxed) && !missing.iter().any(|m| m == "draining") {
            missing.push("draining".to_owned());
        }
        missing
    }

    /// Waits for a change of the plan that runs or of the listeners.
    pub fn changes(&self) -> watch::Receiver<causeway_engine::Status> {
        self.handle.watch()
    }

    pub fn snapshot(&self) -> Snapshot {
        let status = self.handle.status();
        let mut listening: Vec<String> =
            status.listeners.iter().filter_map(|l| Some(l.address?.to_string())).collect();
        listening.sort();
        let failed: Vec<&str> = status.listeners.iter().filter_map(|l| l.error.as_deref()).collect();
        let refused = status
            .refused
            .map(|(_, problems)| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        Snapshot {
            plan: status.plan,
            listening,
            refused,
            trouble: (!failed.is_empty()).then(|| failed.join("; ")),
            connections: self.handle.clusters().into_iter().map(|c| (c.name, c.active)).collect(),
        }
    }
}
