//! `causeway proxy`: the data plane of one `ProxyServer`. It watches its object and the Services behind it, translates
//! them to a plan and runs it. Losing the API server changes nothing: the last good state goes on, and is on disk for the
//! next start.

mod addresses;
mod carrier;
mod feed;
mod pilot;
mod report;
mod saved;
mod serve;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_controllers::vlan::proxy::bootstrap::{ADMIN_SOCKET, Address, XDS_SOCKET};
use causeway_controllers::vlan::proxy::validate::HEALTH_PORT;
use causeway_xds::Door;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use carrier::Carrier;
use pilot::Pilot;
use report::Reporter;

use crate::parts::unix_socket;

/// A connection to the API server that says nothing for longer than a watch lasts is dead.
const SILENCE: Duration = Duration::from_secs(75);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Namespace of the ProxyServer.
    #[arg(long, short, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: String,
    /// Name of the ProxyServer.
    #[arg(long, value_name = "NAME")]
    pub proxy_name: String,
    /// What carries the traffic: this process, or an Envoy beside it that is fed from here.
    #[arg(long, value_enum, default_value_t = EngineArg::Native, value_name = "ENGINE")]
    pub engine: EngineArg,
    /// Listen on this address of the isolated network as soon as this machine has it [default: those of the spec].
    #[arg(long, value_name = "ADDRESS")]
    pub server_ip: Option<IpAddr>,
    /// Address on the pod network; always listened on.
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pub pod_ip: IpAddr,
    /// Name under which this proxy reports in the status [default: the machine's name].
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
    /// Keep the last good state here, for a start without the API server.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Port of /healthz and /ready on the pod's address.
    #[arg(long, default_value_t = HEALTH_PORT, value_name = "PORT")]
    pub health_port: u16,
    /// Port of metrics and state, on a loopback address only; with Envoy, those of its own admin interface.
    #[arg(long, default_value_t = 9901, value_name = "PORT")]
    pub admin_port: u16,
    /// Port where Envoy fetches its configuration, on a loopback address only.
    #[arg(long, default_value_t = 18000, value_name = "PORT")]
    pub xds_port: u16,
    /// Meet Envoy by the sockets xds.sock and admin.sock in this directory; the two ports lead to them.
    #[arg(long, value_name = "DIR")]
    pub socket_dir: Option<PathBuf>,
    #[command(flatten)]
    pub grants: crate::parts::grants::GrantsArg,
    #[command(flatten)]
    pub access_log: crate::parts::access_log::AccessLogArg,
    /// Threads that carry traffic; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub workers: usize,
}

/// The program that carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineArg {
    Native,
    Envoy,
}

impl Args {
    fn reporter_name(&self) -> String {
        let host = || rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        self.pod_name.clone().unwrap_or_else(host)
    }
}

/// Where Envoy fetches its configuration, and where it shows its state.
async fn meet_envoy(args: &Args) -> anyhow::Result<(Door, Address)> {
    let Some(dir) = &args.socket_dir else {
        let door = serve::bind(Ipv4Addr::LOCALHOST.into(), args.xds_port, "--xds-port").await?;
        return Ok((Door::Tcp(door), Address::Tcp((Ipv4Addr::LOCALHOST, args.admin_port).into())));
    };
    let (xds, admin) = (dir.join(XDS_SOCKET), dir.join(ADMIN_SOCKET));
    let door = unix_socket::listen(&xds)?;
    for (port, flag, socket) in
        [(args.xds_port, "--xds-port", xds), (args.admin_port, "--admin-port", admin.clone())]
    {
        let listener = serve::bind(serve::loopback(args.pod_ip), port, flag).await?;
        tokio::spawn(serve::relay(listener, socket));
    }
    Ok((Door::Unix(door), Address::Unix(admin)))
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    crate::parts::open_files::raise_limit();
    let mut config = Config::infer().await.context(
        "no cluster is configured: set KUBECONFIG, or run inside a pod; without Kubernetes use `causeway engine`",
    )?;
    config.read_timeout = Some(SILENCE);
    let client = Client::try_from(config).context("can't make a client")?;
    let health = serve::bind(args.pod_ip, args.health_port, "--health-port").await?;
    let (plan_tx, plan_rx) = watch::channel(None); // pilot → engine
    let carrier = match args.engine {
        EngineArg::Native => Carrier::native(plan_rx, args.workers, args.access_log.log())?,
        EngineArg::Envoy => {
            let (door, admin) = meet_envoy(&args).await?;
            Carrier::envoy(plan_rx, door, admin)?
        }
    };
    let view = carrier.view();
    tokio::spawn(serve::health(health, view.clone()));
    // Envoy has an admin interface of its own.
    if let Some(handle) = view.engine() {
        let admin = serve::bind(serve::loopback(args.pod_ip), args.admin_port, "--admin-port").await?;
        tokio::spawn(serve::admin(admin, handle));
    }

    let (said_tx, said_rx) = watch::channel(Arc::default()); // pilot → reporter
    let reporter = Reporter::new(client.clone(), &args.namespace, &args.proxy_name, &args.reporter_name());
    let reporting = tokio::spawn(reporter.run(said_rx, view.clone()));

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut pilot = Pilot::new(client, &args, plan_tx, said_tx);
    tokio::select! {
        () = pilot.run() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    view.drain();
    tracing::info!("draining; once more Ctrl-C ends at once");
    tokio::select! {
        () = carrier.shutdown() => tracing::info!("stopped"),
        _ = interrupt.recv() => tracing::warn!("stopped before all connections had ended"),
    }
    reporting.abort();
    Ok(ExitCode::SUCCESS)
}
