//! `causeway up`: API server, operator and node in one process, until told to stop.

mod announcement;
mod logs;
mod node;
mod ports;
mod services;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::{Engine, GatewayServiceType, names};
use causeway_apiserver::{Server, Storage};
use causeway_base::well_known::MACHINE_ADDRESS;
use causeway_controllers::containers::tunnel::OnStop;
use causeway_controllers::intercepts::Entry;
use causeway_node::ImageProgram;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::operator::hostnames::HostnameArgs;
use crate::parts::answer::FormatArg;
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::data_dir::{self, DataDirArg};
use crate::parts::grants::GrantsArg;
use crate::parts::output::Output;
use crate::parts::own_program;
use crate::parts::termination::Termination;
use logs::TunnelJournals;
use services::Services;

/// How long the tasks have to stop, once the pods have, before they are cut off.
const DRAIN: Duration = Duration::from_secs(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Where the Kubernetes API listens; port 0 takes a free one.
    #[arg(long, env = "CAUSEWAY_LISTEN", default_value = "127.0.0.1:6450", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Keep objects in memory only; everything is gone at the end. For tests.
    #[arg(long)]
    in_memory: bool,
    /// Serve the API alone, without running pods.
    #[arg(long)]
    no_node: bool,
    /// Address of this machine for Services of type LoadBalancer and for node ports, so that they are reached from outside;
    /// Gateways are of type LoadBalancer then. Without, nothing but loopback is listened on.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "no_services")]
    listen_on: Option<IpAddr>,
    /// Don't make the addresses of Services work.
    #[arg(long)]
    no_services: bool,
    /// Run containers of this image as a program of this machine; may be given several times. An image with a tag
    /// counts before one without.
    #[arg(long = "program", value_name = "IMAGE=PATH", value_parser = node::image_program)]
    programs: Vec<ImageProgram>,
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    /// Serve the API alone, without Causeway's controllers.
    #[arg(long)]
    no_operator: bool,
    #[command(flatten)]
    grants: GrantsArg,
    #[command(flatten)]
    hostnames: HostnameArgs,
    /// How to print what runs and where.
    #[command(flatten)]
    format: FormatArg,
    /// Run this command with KUBECONFIG set once all is ready, then stop and end with its exit code.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.path()?;
    let held = data_dir::hold(&dir)?;
    let listener = TcpListener::bind(args.listen).await.with_context(|| {
        format!(
            "can't listen on {}; choose another address with --listen ADDR:PORT (port 0 takes a free one)",
            args.listen
        )
    })?;
    let address = listener.local_addr()?;
    let url = format!("https://{}", reachable(address));
    let mut termination = Termination::listen()?;
    let stop = Stop::default();
    let shutdown = stop.server.clone();
    let storage = if args.in_memory { Storage::Memory } else { Storage::Directory(&dir) };
    let server = Server::start(storage, shutdown.clone()).await?;
    let kubeconfig_path = data_dir::kubeconfig(&dir);
    server.write_kubeconfig(&kubeconfig_path, &url)?;
    server.advertise(reachable(address)).await?;
    held.describe(&url)?;

    let mut tasks = JoinSet::new();
    let serving = server.serve(listener, &[address.ip().to_string(), MACHINE_ADDRESS.to_string()])?;
    tasks.spawn(async move {
        serving.await;
        ("API server", Ok(()))
    });
    let watching = held.watch(shutdown.clone())?;
    tasks.spawn(async move { ("data directory", watching.await) });
    if args.no_node {
        stop.pods_stopped.cancel();
    } else {
        node::start(&mut tasks, &server, &dir, &kubeconfig_path, address, &args, &stop).await?;
    }
    if !args.no_operator {
        start_operator(&mut tasks, &server, &dir, &args, &stop.pods)?;
    }
    let services = if args.no_services { Services::Off } else { Services::probe() };
    if services == Services::On {
        let (client, stop, listen_on) = (server.client(), shutdown.clone(), args.listen_on);
        tasks.spawn(async move { ("services", services::run(client, &node::name(), listen_on, stop).await) });
    }
    // Standard output belongs to the command, if there is one.
    let output = if args.command.is_empty() { Output::Stdout } else { Output::Stderr };
    announcement::announce(output, &url, &kubeconfig_path, &dir, &services, &args)?;
    let outcome = wait(&mut tasks, &mut termination, &args.command, &kubeconfig_path).await;
    drain(output, tasks, &server, &stop, &mut termination).await;
    drop(held);
    outcome
}

/// An address that clients on this machine can dial.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if !ip.is_unspecified() => address,
        ip if ip.is_ipv4() => SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port()),
        _ => SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), address.port()),
    }
}

/// What stops when: the pods and the operator first, while the API and the addresses of Services still answer them.
#[derive(Default)]
struct Stop {
    pods: CancellationToken,
    /// Pods have drained long enough.
    cut_short: CancellationToken,
    /// Set by the node at its end, however it comes to it.
    pods_stopped: CancellationToken,
    server: CancellationToken,
}

/// A task's name and how it ended.
type Task = (&'static str, anyhow::Result<()>);

fn start_operator(
    tasks: &mut JoinSet<Task>,
    server: &Arc<Server>,
    dir: &Path,
    args: &Args,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let identity = node::name();
    let mut config = causeway_controllers::operator::Config::new(names::NAMESPACE, &identity);
    // The data directory is locked, so there is no other replica to elect a leader against.
    config.leader = None;
    config.proxy.engine = Engine::Native;
    config.proxy.manager_image = own_program::image();
    config.proxy.require_grants = args.grants.require_grants;
    // The address of a Service is one of this machine's: nothing is opened, unless that is asked for.
    config.intercepts.entry = Entry::ClusterIP;
    config.intercepts.carrier_replicas = 1;
    config.intercepts.routed = node::networks();
    config.hostnames = args.hostnames.clone().settings(names::NAMESPACE);
    // Whoever is on this machine may try any name.
    config.hostnames.world.any_domain = true;
    if !may_listen_low() {
        let ports = &mut config.hostnames.world;
        (ports.https_port, ports.http_port, config.hostnames.dns_port) = (8443, Some(8080), 8053);
    }
    if args.listen_on.is_some() {
        config.gateway.service_type = GatewayServiceType::LoadBalancer;
        config.intercepts.entry = Entry::LoadBalancer;
    }
    config.containers = data_dir::containers(dir, args.container_runtime.choice())?;
    args.container_runtime.record(dir)?;
    if args.in_memory {
        config.containers.on_stop = OnStop::End;
    }
    let logs = Arc::new(TunnelJournals::new(&config.containers.directory));
    server.set_object_logs(names::GROUP, "containernetworktunnelproxies", logs);
    let mut registry = Registry::default();
    let controllers =
        causeway_controllers::operator::Operator::new(server.operator_client(), config, &mut registry);
    server.add_metrics(registry);
    let stop = shutdown.clone();
    tasks.spawn(async move { ("operator", controllers.run(stop).await.map_err(anyhow::Error::from)) });
    Ok(())
}

/// Whether programs of this user may listen on the usual ports of DNS and of the web.
fn may_listen_low() -> bool {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first = first.ok().and_then(|text| text.trim().parse::<u16>().ok());
    rustix::process::geteuid().is_root() || first.is_some_and(|first| first <= 53)
}

/// Waits for a signal or the end of the command; a task that ends by itself is an error.
async fn wait(
    tasks: &mut JoinSet<Task>,
    termination: &mut Termination,
    command: &[OsString],
    kubeconfig: &Path,
) -> anyhow::Result<ExitCode> {
    tokio::select! {
        () = termination.asked() => Ok(ExitCode::SUCCESS),
        code = run_command(command, kubeconfig) => code,
        Some(ended) = tasks.join_next() => match ended {
            Ok((task, Ok(()))) => bail!("the {task} ended by itself; the log above says why"),
            Ok((task, Err(error))) => Err(error).with_context(|| format!("the {task} failed")),
            Err(panic) => Err(panic).context("a part of the control plane crashed"),
        },
    }
}

/// Ends with the command; without one, never.
async fn run_command(command: &[OsString], kubeconfig: &Path) -> anyhow::Result<ExitCode> {
    let Some((program, args)) = command.split_first() else { return std::future::pending().await };
    let status = tokio::process::Command::new(program)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("can't run {}", program.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Stops the pods, then the rest. Pods drain for as long as each is given; a second signal ends that.
async fn drain(
    output: Output,
    mut tasks: JoinSet<Task>,
    server: &Server,
    stop: &Stop,
    termination: &mut Termination,
) {
    output.line("stopping");
    stop.pods.cancel();
    let mut pods = std::pin::pin!(stop.pods_stopped.cancelled());
    tokio::select! {
        () = &mut pods => {}
        () = termination.asked() => {
            output.line("cutting off what still drains");
            stop.cut_short.cancel();
            pods.await;
        }
    }
    stop.server.cancel();
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            if let Ok((task, Err(error))) = ended {
                tracing::warn!(task, error = format!("{error:#}"), "ended with an error");
            }
        }
        server.stopped().await;
    };
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!(seconds = DRAIN.as_secs(), "some work did not end in time and was cut off");
    }
    output.line("stopped");
}
