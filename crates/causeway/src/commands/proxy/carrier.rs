//! What carries the traffic, and how it looks from outside: ready or not and why, addresses, connections. Our own engine, or
//! an Envoy beside this process that is fed by xDS.

mod envoy;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::Engine as Kind;
use causeway_controllers::vlan::proxy::bootstrap::Address;
use causeway_engine::{AccessLog, Engine, Handle, Options};
use causeway_ir::Plan;
use tokio::sync::watch;
use tokio::time::timeout;

use envoy::Envoy;

/// How long the end waits for those who asked to be told of it.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What runs the plans of a channel.
pub struct Carrier {
    running: Running,
    view: View,
}

enum Running {
    Native(Engine),
    Envoy(causeway_xds::Server),
}

/// The carrier from outside; cheap to clone.
#[derive(Clone)]
pub struct View {
    inner: Inner,
    phase_tx: Arc<watch::Sender<Phase>>,
}

/// Where a carrier is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Carrying,
    /// Told to end; connections may go on for a while.
    Draining,
    /// The last connection has ended or had its time.
    Drained,
}

#[derive(Clone)]
enum Inner {
    Native(Handle),
    Envoy(Envoy),
}

/// The carrier at this moment.
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

/// Tells of changes of the plan that runs and of the listeners.
pub enum Changes {
    Native(watch::Receiver<causeway_engine::Status>),
    Envoy(watch::Receiver<causeway_xds::Status>),
}

impl Changes {
    /// Waits for the next one; `false` when there will be none.
    pub async fn next(&mut self) -> bool {
        match self {
            Self::Native(rx) => rx.changed().await.is_ok(),
            Self::Envoy(rx) => rx.changed().await.is_ok(),
        }
    }
}

impl Carrier {
    pub fn native(
        plan_rx: watch::Receiver<Option<Arc<Plan>>>,
        workers: usize,
        access_log: AccessLog,
    ) -> anyhow::Result<Self> {
        let engine = Engine::start(plan_rx, &Options { workers, access_log })?;
        let view = View::new(Inner::Native(engine.handle()));
        Ok(Self { running: Running::Native(engine), view })
    }

    /// Feeds an Envoy that connects to `door`; `admin` is where it shows its state.
    pub fn envoy(
        plan_rx: watch::Receiver<Option<Arc<Plan>>>,
        door: causeway_xds::Door,
        admin: Address,
    ) -> anyhow::Result<Self> {
        let server = causeway_xds::Server::start(plan_rx, door, causeway_xds::Options::default())?;
        let envoy = Envoy::new(server.handle(), admin);
        let view = View::new(Inner::Envoy(envoy));
        Ok(Self { running: Running::Envoy(server), view })
    }

    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Takes nothing new, lets connections end until the plan's drain timeout, and stops.
    pub async fn shutdown(self) {
        match (self.running, &self.view.inner) {
            (Running::Envoy(server), Inner::Envoy(envoy)) => {
                envoy.drain().await;
                self.view.phase_tx.send_replace(Phase::Drained);
                // Whoever waits for this word has it before the process is gone.
                let _ = timeout(LAST_WORD, self.view.phase_tx.closed()).await;
                server.shutdown().await;
            }
            (Running::Envoy(server), Inner::Native(_)) => server.shutdown().await,
            (Running::Native(engine), _) => engine.shutdown().await,
        }
    }
}

impl View {
    fn new(inner: Inner) -> Self {
        Self { inner, phase_tx: Arc::new(watch::Sender::default()) }
    }

    /// To wait for the end.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase_tx.subscribe()
    }

    /// Which program it is.
    pub fn kind(&self) -> Kind {
        match self.inner {
            Inner::Native(_) => Kind::Native,
            Inner::Envoy(_) => Kind::Envoy,
        }
    }

    /// The engine's own handle, for its admin paths; Envoy has its own.
    pub fn engine(&self) -> Option<Handle> {
        match &self.inner {
            Inner::Native(handle) => Some(handle.clone()),
            Inner::Envoy(_) => None,
        }
    }

    /// From now on it is not ready.
    pub fn drain(&self) {
        self.phase_tx.send_replace(Phase::Draining);
    }

    /// Why it is not ready; empty if it is.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = match &self.inner {
            Inner::Native(handle) => handle.status().missing(),
            Inner::Envoy(envoy) => envoy.missing(),
        };
        if *self.phase_tx.borrow() != Phase::Carrying && !missing.iter().any(|m| m == "draining") {
            missing.push("draining".to_owned());
        }
        missing
    }

    pub fn changes(&self) -> Changes {
        match &self.inner {
            Inner::Native(handle) => Changes::Native(handle.watch()),
            Inner::Envoy(envoy) => Changes::Envoy(envoy.watch()),
        }
    }

    pub async fn snapshot(&self) -> Snapshot {
        match &self.inner {
            Inner::Native(handle) => native_snapshot(handle),
            Inner::Envoy(envoy) => envoy.snapshot().await,
        }
    }
}

fn native_snapshot(handle: &Handle) -> Snapshot {
    let status = handle.status();
    let mut listening: Vec<String> =
        status.listeners.iter().filter_map(|l| Some(l.address?.to_string())).collect();
    listening.sort();
    let failed: Vec<&str> = status.listeners.iter().filter_map(|l| l.error.as_deref()).collect();
    Snapshot {
        plan: status.plan,
        listening,
        refused: status.refused.map(|(_, problems)| words(&problems)),
        trouble: (!failed.is_empty()).then(|| failed.join("; ")),
        connections: handle.clusters().into_iter().map(|c| (c.name, c.active)).collect(),
    }
}

fn words(problems: &[causeway_ir::Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
