//! `causeway carrier`: a pod in front of an intercepted Service, or a container in the place of another: it follows the plan that the
//! operator makes, sends what is taken to workstations and the rest to the original pods.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use causeway_agent::{Gateway, Leave};
use causeway_translate::gateway_pod::{ADMIN_PORT, HEALTH_PORT};

use crate::parts::access_log::AccessLogArg;
use crate::parts::plan_pod::PlanPod;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of the plan.
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: String,
    /// Follow the GatewayPlan of this name.
    #[arg(long, value_name = "NAME")]
    plan_name: String,
    /// Addresses on the pod network, to listen on: the pod's own, and that of another family.
    #[arg(long, value_delimiter = ',', required = true, value_name = "ADDRESS")]
    pod_ip: Vec<IpAddr>,
    /// Name under which this pod reports.
    #[arg(long, value_name = "NAME")]
    pod_name: String,
    /// Keep the last good state here, certificates included, for a start without the API server.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Port of /healthz, /ready and /metrics on the pod's address.
    #[arg(long, default_value_t = HEALTH_PORT, value_name = "PORT")]
    health_port: u16,
    /// Port of metrics and state, on a loopback address only.
    #[arg(long, default_value_t = ADMIN_PORT, value_name = "PORT")]
    admin_port: u16,
    /// A Service leads here: after the word to end, stay ready and serve until that is known on all nodes.
    #[arg(long)]
    behind_service: bool,
    #[command(flatten)]
    access_log: AccessLogArg,
    /// Threads that carry traffic; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    workers: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (first, further) = args.pod_ip.split_first().context("write --pod-ip ADDRESS")?;
    let pod = PlanPod {
        plan: args.plan_name,
        namespace: args.namespace,
        pod_ip: *first,
        further: further.to_vec(),
        pod_name: Some(args.pod_name),
        state_dir: args.state_dir,
        health_port: args.health_port,
        admin_port: args.admin_port,
        access_log: args.access_log,
        spans: None,
        session_key: None,
        workers: args.workers,
        leave: if args.behind_service { Leave::Ready } else { Leave::Unready },
    };
    pod.run(Gateway::carrier).await
}
