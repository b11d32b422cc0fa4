//! `causeway proxy`: one replica of a `ProxyServer`, as an agent that follows the object and gives its plans to the
//! engine in this process or to an Envoy beside it.

mod envoy;
mod runner;
mod serve;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_agent::Agent;
use causeway_api::{Engine, names};
use causeway_translate::proxy::HEALTH_PORT;
use causeway_translate::proxy::bootstrap::{ADMIN_SOCKET, Address, XDS_SOCKET};
use causeway_xds::Socket;
use kube::{Client, Config};

use envoy::Envoy;
use runner::{Carrier, Native};

use crate::parts::{logging, unix_socket};

/// A connection to the API server that says nothing for longer than a watch lasts is dead.
const SILENCE: Duration = Duration::from_secs(75);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of the ProxyServer.
    #[arg(long, short, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    namespace: String,
    /// Name of the ProxyServer.
    #[arg(long, value_name = "NAME")]
    proxy_name: String,
    /// What carries the traffic: this process, or an Envoy beside it that is fed from here.
    #[arg(long, value_enum, default_value_t = EngineArg::Native, value_name = "ENGINE")]
    engine: EngineArg,
    /// Listen on this address of the isolated network as soon as this machine has it [default: those of the spec].
    #[arg(long, value_name = "ADDRESS")]
    server_ip: Option<IpAddr>,
    /// Address on the pod network; always listened on.
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pod_ip: IpAddr,
    /// Name under which this proxy reports in the status [default: the machine's name].
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// Keep the last good state here, for a start without the API server or with a spec that can't be run.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Port of /healthz and /ready on the pod's address.
    #[arg(long, default_value_t = HEALTH_PORT, value_name = "PORT")]
    health_port: u16,
    /// Port of metrics and state, on a loopback address only; with Envoy, those of its own admin interface.
    #[arg(long, default_value_t = 9901, value_name = "PORT")]
    admin_port: u16,
    /// Port where Envoy fetches its configuration, on a loopback address only.
    #[arg(long, default_value_t = 18000, value_name = "PORT")]
    xds_port: u16,
    /// Meet Envoy by the sockets xds.sock and admin.sock in this directory; the two ports lead to them.
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    #[command(flatten)]
    grants: crate::parts::grants::GrantsArg,
    #[command(flatten)]
    access_log: crate::parts::access_log::AccessLogArg,
    /// Threads that carry traffic; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    workers: usize,
}

/// The program that carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineArg {
    Native,
    Envoy,
}

impl Args {
    fn pod(&self) -> String {
        let host = || rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        self.pod_name.clone().unwrap_or_else(host)
    }

    fn followed(&self) -> causeway_agent::Proxy {
        causeway_agent::Proxy {
            name: self.proxy_name.clone(),
            pod: self.pod(),
            pod_ip: self.pod_ip,
            server_ip: self.server_ip,
            engine: match self.engine {
                EngineArg::Native => Engine::Native,
                EngineArg::Envoy => Engine::Envoy,
            },
            follow_log_level: logging::follow,
        }
    }

    fn config(&self) -> causeway_agent::Config {
        causeway_agent::Config {
            namespace: self.namespace.clone(),
            name: self.proxy_name.clone(),
            field_manager: names::report_manager(&self.pod()),
            state_dir: self.state_dir.clone(),
            require_grants: self.grants.require_grants,
        }
    }
}

/// Where Envoy fetches its configuration, and where it shows its state.
async fn meet_envoy(args: &Args) -> anyhow::Result<(Socket, Address)> {
    let Some(dir) = &args.socket_dir else {
        let socket = serve::bind(Ipv4Addr::LOCALHOST.into(), args.xds_port, "--xds-port").await?;
        return Ok((Socket::Tcp(socket), Address::Tcp((Ipv4Addr::LOCALHOST, args.admin_port).into())));
    };
    let (xds, admin) = (dir.join(XDS_SOCKET), dir.join(ADMIN_SOCKET));
    let socket = unix_socket::listen(&xds)?;
    for (port, flag, path) in
        [(args.xds_port, "--xds-port", xds), (args.admin_port, "--admin-port", admin.clone())]
    {
        let listener = serve::bind(serve::loopback(args.pod_ip), port, flag).await?;
        tokio::spawn(serve::relay(listener, path));
    }
    Ok((Socket::Unix(socket), Address::Unix(admin)))
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    crate::parts::open_files::raise_limit();
    let mut config = Config::infer().await.context(
        "no cluster is configured: set KUBECONFIG, or run inside a pod; without Kubernetes use `causeway engine`",
    )?;
    config.read_timeout = Some(SILENCE);
    let client = Client::try_from(config).context("can't make a client")?;
    let health = serve::bind(args.pod_ip, args.health_port, "--health-port").await?;
    let (agent, plan_rx) = Agent::new(client, args.followed(), args.config());
    let carrier = match args.engine {
        EngineArg::Native => {
            let native = Native::start(plan_rx, args.workers, args.access_log.log())?;
            let admin = serve::bind(serve::loopback(args.pod_ip), args.admin_port, "--admin-port").await?;
            tokio::spawn(serve::admin(admin, native.handle()));
            Carrier::Native(native)
        }
        // Envoy has an admin interface of its own.
        EngineArg::Envoy => {
            let (socket, admin) = meet_envoy(&args).await?;
            Carrier::Envoy(Envoy::start(plan_rx, socket, admin)?)
        }
    };
    agent.run(Arc::new(carrier), health).await.context("can't listen for signals")?;
    Ok(ExitCode::SUCCESS)
}
