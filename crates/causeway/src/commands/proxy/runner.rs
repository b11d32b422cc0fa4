//! What carries a proxy's traffic: our own engine, or an Envoy beside this process that is fed by xDS.

use std::sync::Arc;

use anyhow::Context;
use causeway_agent::{Runner, Snapshot, changes_of};
use causeway_engine::{AccessLog, Engine, Handle, Options};
use causeway_ir::{Plan, Problem};
use futures::stream::BoxStream;
use tokio::sync::{Mutex, watch};

use super::envoy::Envoy;

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
}

impl Native {
    pub(crate) fn start(
        plan_rx: watch::Receiver<Option<Arc<Plan>>>,
        workers: usize,
        access_log: AccessLog,
    ) -> anyhow::Result<Self> {
        let engine =
            Engine::start(plan_rx, &Options { workers, access_log }).context("can't start the engine")?;
        Ok(Self { handle: engine.handle(), engine: Mutex::new(Some(engine)) })
    }

    /// For its admin paths.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
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
            refused: status.refused.map(|(_, problems)| words(&problems)),
            trouble: (!failed.is_empty()).then(|| failed.join("; ")),
            connections: self.handle.clusters().into_iter().map(|c| (c.name.to_string(), c.active)).collect(),
        }
    }
}

impl Runner for Carrier {
    type Plan = Plan;

    fn missing(&self) -> Vec<String> {
        match self {
            Self::Native(native) => native.handle.status().missing(),
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
            Self::Envoy(envoy) => changes_of(envoy.watch()),
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

/// What is wrong with a plan, in one line.
pub(super) fn words(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
