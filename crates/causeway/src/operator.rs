//! `causeway operator`: the controllers against a Kubernetes cluster, with leader election, metrics and health.

use std::net::SocketAddr;

use anyhow::Context;
use causeway_api::names;
use causeway_controllers::operator::{Config, Operator};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::observe;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Namespace of the election's Lease; in a pod, its own.
    #[arg(long, env = "POD_NAMESPACE", default_value = names::NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// This replica's name in the election; in a pod, its own.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    identity: Option<String>,
    /// Run at once, without asking other replicas.
    #[arg(long)]
    no_leader_election: bool,
    /// Where /metrics, /healthz and /readyz are served.
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDR:PORT")]
    observe: SocketAddr,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let client = kube::Client::try_default().await.context(
        "no cluster is configured: set KUBECONFIG, or run inside a pod; for a control plane on this machine use `causeway up`",
    )?;
    let identity = args.identity.unwrap_or_else(|| {
        format!("{}-{}", rustix::system::uname().nodename().to_string_lossy(), std::process::id())
    });
    let mut config = Config::new(&args.namespace, &identity);
    if args.no_leader_election {
        config.leader = None;
    }
    let mut registry = Registry::default();
    let operator = Operator::new(client, config, &mut registry);
    let shutdown = CancellationToken::new();
    let observer = observe::bind(args.observe).await?;
    let observing = tokio::spawn(observe::serve(observer, registry, operator.health(), shutdown.clone()));
    tokio::spawn(cancel_on_signal(shutdown.clone()));
    let outcome = operator.run(shutdown.clone()).await;
    shutdown.cancel();
    observing.await?;
    Ok(outcome?)
}

async fn cancel_on_signal(shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    shutdown.cancel();
    Ok(())
}
