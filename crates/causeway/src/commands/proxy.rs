//! `causeway proxy`: one replica of a `ProxyServer`, as an agent that follows the object and gives its plans to the
//! engine in this process or to an Envoy beside it.

mod envoy;
mod handover;
mod relay;
mod runner;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_agent::{Agent, Leave};
use causeway_api::{Engine, LogLevel, names};
use causeway_engine::{Options, SharePorts};
use causeway_translate::proxy::HEALTH_PORT;
use causeway_translate::proxy::bootstrap::{ADMIN_SOCKET, ANSWERS_SOCKET, Address, XDS_SOCKET};
use causeway_xds::Socket;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use envoy::Envoy;
use handover::{Doors, Found};
use runner::Carrier;

use crate::parts::native::Native;
use crate::parts::{logging, pod_ports, server_pod, unix_socket};

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
    /// Start from the spec in this file, the last that any pod of this proxy accepted, while the newest can't be run.
    #[arg(long, value_name = "FILE")]
    accepted: Option<PathBuf>,
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

    fn followed(&self, level_tx: watch::Sender<Option<LogLevel>>) -> causeway_agent::Proxy {
        causeway_agent::Proxy {
            name: self.proxy_name.clone(),
            pod: self.pod(),
            pod_ip: self.pod_ip,
            server_ip: self.server_ip,
            engine: match self.engine {
                EngineArg::Native => Engine::Native,
                EngineArg::Envoy => Engine::Envoy,
            },
            follow_log_level: Box::new(move |level| {
                logging::follow(level);
                level_tx.send_replace(Some(level));
            }),
        }
    }

    fn config(&self) -> causeway_agent::Config {
        causeway_agent::Config {
            namespace: self.namespace.clone(),
            name: self.proxy_name.clone(),
            pod_ip: self.pod_ip,
            field_manager: names::report_manager(&self.pod()),
            state_dir: self.state_dir.clone(),
            accepted: self.accepted.clone(),
            require_grants: self.grants.require_grants,
            leave: Leave::Unready,
        }
    }
}

/// Where Envoy fetches its configuration, where it shows its state, and where its workers say that they run.
async fn meet_envoy(args: &Args) -> anyhow::Result<(Socket, Address, Option<PathBuf>)> {
    let Some(dir) = &args.socket_dir else {
        let socket = pod_ports::bind(Ipv4Addr::LOCALHOST.into(), args.xds_port, "--xds-port").await?;
        let admin = Address::Tcp((Ipv4Addr::LOCALHOST, args.admin_port).into());
        return Ok((Socket::Tcp(socket), admin, None));
    };
    let (xds, admin) = (dir.join(XDS_SOCKET), dir.join(ADMIN_SOCKET));
    let socket = unix_socket::listen(&xds)?;
    for (port, flag, path) in
        [(args.xds_port, "--xds-port", xds), (args.admin_port, "--admin-port", admin.clone())]
    {
        let listener = pod_ports::bind(pod_ports::loopback(args.pod_ip), port, flag).await?;
        tokio::spawn(relay::relay(listener, path));
    }
    Ok((Socket::Unix(socket), Address::Unix(admin), Some(dir.join(ANSWERS_SOCKET))))
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = server_pod::client().await.context("without Kubernetes use `causeway engine`")?;
    let health = pod_ports::bind_pod(args.pod_ip, args.health_port, "--health-port")?;
    let (level_tx, level_rx) = watch::channel(None); // object → Envoy
    let (agent, plan_rx) = Agent::new(client, args.followed(level_tx), args.config());
    let doors = Doors::new(&args.proxy_name, args.server_ip).map(Arc::new);
    let mut found = Found::default();
    let carrier = match args.engine {
        EngineArg::Native => {
            if let Some(doors) = &doors {
                found = doors.find().await;
            }
            let options = Options {
                workers: args.workers,
                access_log: args.access_log.log(),
                share_ports: doors
                    .clone()
                    .map_or_else(SharePorts::default, |doors| SharePorts::when(move || doors.has_others())),
                ..Options::default()
            };
            let native = Native::start(plan_rx, &options, std::mem::take(&mut found.sockets))?;
            let admin =
                pod_ports::bind(pod_ports::loopback(args.pod_ip), args.admin_port, "--admin-port").await?;
            tokio::spawn(pod_ports::admin(admin, native.handle()));
            Carrier::Native(native)
        }
        // Envoy has an admin interface of its own, and shares ports by itself.
        EngineArg::Envoy => {
            let (socket, admin, answers) = meet_envoy(&args).await?;
            Carrier::Envoy(Envoy::start(plan_rx, socket, admin, answers, level_rx)?)
        }
    };
    let carrier = Arc::new(carrier);
    let _successors = doors.map(|doors| {
        AbortOnDropHandle::new(tokio::spawn(doors.serve(found, Arc::clone(&carrier), args.pod_ip)))
    });
    agent.run(carrier, health).await.context("can't listen for signals")?;
    Ok(ExitCode::SUCCESS)
}
