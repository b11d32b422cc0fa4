//! The pod of a `DNSServer`: an agent that follows the object and gives its plans to the server in this process.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_agent::{Agent, Dns, Runner, Snapshot, changes_of};
use causeway_dns::{Handle, Options, Server};
use causeway_engine::admin::METRICS_TYPE;
use causeway_ir::dns::DnsPlan;
use futures::stream::BoxStream;
use prometheus_client::encoding::text::encode;
use tokio::sync::Mutex;

use crate::parts::plan_check::in_words;
use crate::parts::server_pod::ServerPodArgs;

pub(super) async fn run(args: ServerPodArgs, options: &Options) -> anyhow::Result<ExitCode> {
    let followed = args.follow("dns").await?;
    let (agent, plan_rx) = Agent::new(followed.client, Dns(followed.pod), followed.config);
    let server = Server::start(plan_rx, options)?;
    let answering = Answering { handle: server.handle(), server: Mutex::new(Some(server)) };
    agent.run(Arc::new(answering), followed.health).await.context("can't listen for signals")?;
    Ok(ExitCode::SUCCESS)
}

/// The server in this process.
struct Answering {
    handle: Handle,
    /// Gone once it was drained.
    server: Mutex<Option<Server>>,
}

impl Runner for Answering {
    type Plan = DnsPlan;

    fn missing(&self) -> Vec<String> {
        self.handle.status().missing()
    }

    async fn snapshot(&self) -> Snapshot<DnsPlan> {
        let status = self.handle.status();
        let failed = status.missing();
        let listeners = status.listeners.iter();
        let mut listening: Vec<_> = listeners.filter_map(|l| Some(l.address?.to_string())).collect();
        listening.sort();
        let failing = status.upstreams.iter().filter(|upstream| !upstream.healthy);
        Snapshot {
            listening,
            refused: status.refused.as_ref().map(|(_, problems)| in_words(problems)),
            trouble: (!failed.is_empty()).then(|| failed.join("; ")),
            failing_upstreams: failing.map(|upstream| upstream.address.to_string()).collect(),
            plan: status.plan,
            ..Snapshot::default()
        }
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        changes_of(self.handle.watch())
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        let mut text = String::new();
        encode(&mut text, self.handle.registry()).ok()?;
        Some((METRICS_TYPE, text))
    }

    /// A question has its answer or is asked again.
    fn drain_limit(&self) -> Duration {
        Duration::ZERO
    }

    async fn drain(&self) {
        if let Some(server) = self.server.lock().await.take() {
            server.shutdown().await;
        }
    }
}
