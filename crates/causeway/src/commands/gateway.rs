//! `causeway gateway`: one pod of a Gateway, as an agent that follows the plan which the operator makes; or, with `--files`,
//! a whole gateway from Gateway API resources in a folder, without Kubernetes.

mod files;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_agent::{Agent, Gateway};
use causeway_api::names;
use causeway_engine::Options;
use causeway_translate::gateway_pod::keys::Keys;
use causeway_translate::gateway_pod::{ADMIN_PORT, HEALTH_PORT};

use crate::parts::access_log::AccessLogArg;
use crate::parts::keys::KeyStore;
use crate::parts::native::Native;
use crate::parts::{pod_ports, server_pod};

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
    let name = args.plan_name.clone().with_context(missing)?;
    let namespace = args.namespace.clone().with_context(missing)?;
    let pod_ip = args.pod_ip.with_context(missing)?;
    let host = || rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let pod = args.pod_name.clone().unwrap_or_else(host);
    let client = server_pod::client().await.context("without Kubernetes use --files")?;
    let health = pod_ports::bind_pod(pod_ip, args.health_port, "--health-port")?;
    let (keys, certificates_rx) = KeyStore::new();
    let config = causeway_agent::Config {
        namespace,
        name,
        pod_ip,
        field_manager: names::gateway_report_manager(&pod),
        state_dir: args.state_dir.clone(),
        accepted: None,
        require_grants: true,
    };
    let followed = Gateway::new(pod, pod_ip, Box::new(move |now: &Keys| keys.replace(now)));
    let (agent, plan_rx) = Agent::new(client, followed, config);
    let options = Options {
        workers: args.workers,
        access_log: args.access_log.log(),
        certificates: Some(certificates_rx),
        ..Options::default()
    };
    let native = Native::start(plan_rx, &options, Vec::new())?;
    let admin = pod_ports::bind(pod_ports::loopback(pod_ip), args.admin_port, "--admin-port").await?;
    tokio::spawn(pod_ports::admin(admin, native.handle()));
    agent.run(Arc::new(native), health).await.context("can't listen for signals")?;
    Ok(ExitCode::SUCCESS)
}
