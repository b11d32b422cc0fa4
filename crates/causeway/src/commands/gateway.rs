//! `causeway gateway`: one pod of a Gateway, as an agent that follows the plan which the operator makes; or, with `--files`,
//! a whole gateway from Gateway API resources in a folder, without Kubernetes.

mod files;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use causeway_agent::{Gateway, Leave};
use causeway_translate::gateway_pod::{ADMIN_PORT, HEALTH_PORT};

use crate::parts::access_log::AccessLogArg;
use crate::parts::plan_pod::PlanPod;
use crate::parts::traces::TracesArg;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve the Gateway API resources in the files of this folder, and write their statuses below status/ in it.
    #[arg(long, value_name = "DIR", conflicts_with = "plan_name")]
    files: Option<PathBuf>,
    /// With --files: check them, print what is wrong and what becomes of each, and end.
    #[arg(long, requires = "files")]
    check: bool,
    /// With --files: listen on this address, for every Gateway that asks for none; may be given several times.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", requires = "files")]
    listen_on: Vec<IpAddr>,
    /// With --files: show metrics and state here, a loopback address and port or the path of a Unix socket.
    #[arg(long, value_name = "ADDR:PORT|PATH", requires = "files")]
    admin: Option<String>,
    /// Namespace of the Gateway.
    #[arg(long, short, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Follow the GatewayPlan of this name in Kubernetes, as the pods of a Gateway do.
    #[arg(long, value_name = "NAME", required_unless_present = "files")]
    plan_name: Option<String>,
    /// Address on the pod network, to listen on.
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pod_ip: Option<IpAddr>,
    /// Name under which this pod reports [default: the machine's name].
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// Keep the last good state here, certificates included, for a start without the API server.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Port of /healthz, /ready and /metrics on the pod's address.
    #[arg(long, default_value_t = HEALTH_PORT, value_name = "PORT")]
    health_port: u16,
    /// Port of metrics and state, on a loopback address only.
    #[arg(long, default_value_t = ADMIN_PORT, value_name = "PORT")]
    admin_port: u16,
    #[command(flatten)]
    access_log: AccessLogArg,
    #[command(flatten)]
    traces: TracesArg,
    /// What sessions of clients that stay with their endpoint are signed with: a file of 32 random bytes, the same for all pods
    /// of a Gateway. Another one in each process if not given.
    #[arg(long, env = "SESSION_KEY_FILE", value_name = "FILE")]
    session_key: Option<PathBuf>,
    /// Threads that carry traffic; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    workers: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match &args.files {
        Some(dir) => files::run(dir, &args).await,
        None => follow(args).await,
    }
}

/// One pod of a Gateway.
async fn follow(args: Args) -> anyhow::Result<ExitCode> {
    let missing = || "write --files DIR, or --plan-name with --namespace and --pod-ip";
    let pod = PlanPod {
        plan: args.plan_name.with_context(missing)?,
        namespace: args.namespace.with_context(missing)?,
        pod_ip: args.pod_ip.with_context(missing)?,
        further: Vec::new(),
        pod_name: args.pod_name,
        state_dir: args.state_dir,
        health_port: args.health_port,
        admin_port: args.admin_port,
        access_log: args.access_log,
        spans: args.traces.start_if_possible(),
        session_key: args.session_key,
        workers: args.workers,
        leave: Leave::Unready,
    };
    pod.run(Gateway::new).await
}
