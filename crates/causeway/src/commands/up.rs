//! `causeway up`: API server, operator and node in one process, until told to stop.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::{Engine, names};
use causeway_apiserver::kubeconfig;
use causeway_apiserver::serve::{ServerTls, serve};
use causeway_apiserver::server::{Server, Storage};
use causeway_node::ImageProgram;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::commands::operator;
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::data_dir::{self, DataDirArg};
use crate::parts::pod_logs::NodeLogs;
use crate::parts::services;
use crate::parts::tunnel_log::TunnelLogs;

/// How long the parts have to stop before they are left behind.
const DRAIN: Duration = Duration::from_secs(20);

#[derive(Debug, clap::Args)]
pub struct Args {
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
    /// Don't make the addresses of Services work.
    #[arg(long)]
    no_services: bool,
    /// Run containers of this image as a program of this machine; may be given several times. An image with a tag
    /// counts before one without.
    #[arg(long = "program", value_name = "IMAGE=PATH", value_parser = image_program)]
    programs: Vec<ImageProgram>,
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    /// Serve the API alone, without Causeway's controllers.
    #[arg(long)]
    no_operator: bool,
    #[command(flatten)]
    grants: operator::Grants,
    /// Run this command with KUBECONFIG set once all is ready, then stop and end with its exit code.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
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
    let shutdown = CancellationToken::new();
    let storage = if args.in_memory { Storage::Memory } else { Storage::Directory(&dir) };
    let server = Server::start(storage, shutdown.clone()).await?;
    let kubeconfig_path = data_dir::kubeconfig(&dir);
    kubeconfig::write(&kubeconfig_path, &server.pki, &url)?;
    server.advertise(reachable(address)).await?;
    held.describe(&url)?;

    let mut parts = JoinSet::new();
    let tls = Arc::new(ServerTls::new(server.pki.clone(), &[address.ip().to_string()])?);
    let (router, stop) = (server.router(), shutdown.clone());
    parts.spawn(async move {
        serve(listener, router, tls, stop).await;
        ("API server", Ok(()))
    });
    if !args.no_node {
        start_node(&mut parts, &server, &dir, &kubeconfig_path, &args, &shutdown)?;
    }
    if !args.no_operator {
        start_operator(&mut parts, &server, &dir, &args, &shutdown)?;
    }
    let services = if args.no_services { Ok("off") } else { services::usable().map(|()| "on") };
    if matches!(services, Ok("on")) {
        let (client, stop) = (server.client(), shutdown.clone());
        parts.spawn(async move { ("services", services::run(client, &node_name(), stop).await) });
    }
    let voice = Voice { aside: !args.command.is_empty() };
    announce(voice, &url, &kubeconfig_path, &dir, &services, &args);
    let outcome = wait(&mut parts, &args.command, &kubeconfig_path).await;
    shutdown.cancel();
    drain(voice, parts, &server).await;
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

type Part = (&'static str, anyhow::Result<()>);

fn start_node(
    parts: &mut JoinSet<Part>,
    server: &Arc<Server>,
    dir: &Path,
    kubeconfig: &Path,
    args: &Args,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("can't find this program's own file")?;
    let node_dir = dir.join("node");
    let mut config = causeway_node::Config::new(node_name(), &node_dir, program);
    names::OWN_IMAGE.clone_into(&mut config.own_image);
    kubeconfig.clone_into(&mut config.kubeconfig);
    args.programs.clone_into(&mut config.programs);
    config.containers = args.container_runtime.choice();
    config.ca_path = dir.join("pki").join("ca.crt");
    std::fs::create_dir_all(dir.join("pki"))?;
    std::fs::write(&config.ca_path, server.pki.ca_pem())
        .with_context(|| format!("can't write {}", config.ca_path.display()))?;
    server.set_pod_logs(Arc::new(NodeLogs::new(&node_dir)));
    let (node, client, stop) = (causeway_node::Node::new(config)?, server.client(), shutdown.clone());
    parts.spawn(async move { ("node", node.run(client, stop).await.map_err(anyhow::Error::from)) });
    Ok(())
}

fn start_operator(
    parts: &mut JoinSet<Part>,
    server: &Arc<Server>,
    dir: &Path,
    args: &Args,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let identity = node_name();
    let mut config = causeway_controllers::operator::Config::new(names::NAMESPACE, &identity);
    // Alone on its data directory, which is locked: there is nobody to elect a leader against.
    config.leader = None;
    config.proxy.engine = Engine::Native;
    config.proxy.manager_image = operator::own_image();
    config.proxy.require_grants = args.grants.require_grants;
    config.containers = data_dir::containers(dir, args.container_runtime.choice())?;
    let logs = Arc::new(TunnelLogs::new(&config.containers.directory));
    server.set_object_logs(names::GROUP, "containernetworktunnelproxies", logs);
    let mut registry = Registry::default();
    let controllers = causeway_controllers::operator::Operator::new(server.client(), config, &mut registry);
    server.add_metrics(registry);
    let stop = shutdown.clone();
    parts.spawn(async move { ("operator", controllers.run(stop).await.map_err(anyhow::Error::from)) });
    Ok(())
}

/// Reads `IMAGE=PATH`; the program must be there now, because a pod that fails for it much later tells less.
fn image_program(text: &str) -> Result<ImageProgram, String> {
    let (image, path) = text
        .split_once('=')
        .filter(|(image, path)| !image.is_empty() && !path.is_empty())
        .ok_or("write an image and the path of a program, like envoyproxy/envoy=/usr/local/bin/envoy")?;
    let path = std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?;
    let metadata = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(format!("{} is not an executable file", path.display()));
    }
    Ok(ImageProgram { image: image.to_owned(), path })
}

fn node_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let name = name.trim_matches(['-', '.']).to_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Where this command's own lines go: standard output, or beside it when that belongs to a command.
#[derive(Clone, Copy)]
struct Voice {
    aside: bool,
}

impl Voice {
    fn say(self, line: &str) {
        // Nobody may be reading any more; that is no reason to end.
        let _ = if self.aside {
            writeln!(std::io::stderr(), "{line}")
        } else {
            writeln!(std::io::stdout(), "{line}")
        };
    }
}

/// Says what runs and where.
fn announce(
    voice: Voice,
    url: &str,
    kubeconfig: &Path,
    dir: &Path,
    services: &Result<&str, String>,
    args: &Args,
) {
    let on = |off: bool| if off { "off" } else { "on" };
    let kept = if args.in_memory { " (objects in memory only)" } else { "" };
    voice.say(&format!("export KUBECONFIG={}", kubeconfig.display()));
    voice.say(&format!("api       {url}"));
    voice.say(&format!("operator  {}", on(args.no_operator)));
    voice.say(&format!("node      {} ({})", on(args.no_node), node_name()));
    match services {
        Ok("on") => voice.say(&format!("services  on ({})", services::RANGE)),
        Ok(off) => voice.say(&format!("services  {off}")),
        Err(why) => voice.say(&format!("services  off: {why}")),
    }
    voice.say(&format!("data      {}{kept}", dir.display()));
    voice.say("ready");
}

/// Until a signal asks to stop or the command is done; a part that ends by itself is an error.
async fn wait(
    parts: &mut JoinSet<Part>,
    command: &[OsString],
    kubeconfig: &Path,
) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => Ok(ExitCode::SUCCESS),
        code = run_command(command, kubeconfig) => code,
        Some(ended) = parts.join_next() => match ended {
            Ok((part, Ok(()))) => bail!("the {part} ended by itself; the log above says why"),
            Ok((part, Err(error))) => Err(error).with_context(|| format!("the {part} failed")),
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

async fn drain(voice: Voice, mut parts: JoinSet<Part>, server: &Server) {
    voice.say("stopping");
    let all = async {
        while let Some(ended) = parts.join_next().await {
            if let Ok((part, Err(error))) = ended {
                tracing::warn!(part, error = format!("{error:#}"), "ended with an error");
            }
        }
        server.stopped().await;
    };
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!(seconds = DRAIN.as_secs(), "some work did not end in time and was cut off");
    }
    voice.say("stopped");
}
