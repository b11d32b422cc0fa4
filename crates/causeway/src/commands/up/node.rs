//! The node in this process: what it is called, which programs stand for images, and how it is started.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use causeway_api::names;
use causeway_apiserver::Server;
use causeway_base::file;
use causeway_base::well_known::{MACHINE_ADDRESS, SERVICE_NETWORK, SERVICE_PREFIX};
use causeway_node::{CommandPolicy, Config, ImageProgram, Node, PortDialer};
use ipnet::{IpNet, Ipv4Net};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::logs::PodLogFiles;
use super::ports::NodePorts;
use super::{Args, Stop, Task};
use crate::parts::own_program;

/// The subcommands that pods of Causeway's own image may run: data planes, whose arguments and objects say what they
/// carry and no more. All others act for whoever runs this machine.
const IN_PODS: [&str; 8] = ["proxy", "gateway", "carrier", "stowaway", "dns", "dhcp", "echo", "version"];

/// The networks of Services and pods.
pub(super) fn networks() -> Vec<IpNet> {
    // Pods have the addresses that follow the machine's.
    let all = [Ipv4Net::new(SERVICE_NETWORK, SERVICE_PREFIX), Ipv4Net::new(MACHINE_ADDRESS, 10)];
    all.into_iter().flatten().map(IpNet::from).collect()
}

pub(super) async fn start(
    tasks: &mut JoinSet<Task>,
    server: &Arc<Server>,
    dir: &Path,
    kubeconfig: &Path,
    api: SocketAddr,
    args: &Args,
    stop: &Stop,
) -> anyhow::Result<()> {
    let node_dir = dir.join("node");
    let mut config = Config::new(name(), &node_dir, own_program::path()?);
    names::OWN_IMAGE.clone_into(&mut config.own_image);
    names::NAMESPACE.clone_into(&mut config.own_namespace);
    kubeconfig.clone_into(&mut config.kubeconfig);
    args.programs.clone_into(&mut config.programs);
    config.containers = args.container_runtime.choice();
    config.commands = CommandPolicy::Subcommands(&IN_PODS);
    config.cut_short = stop.cut_short.clone();
    config.attached_api = serve_attached(tasks, server, api).await?;
    config.ca_path = dir.join("pki").join("ca.crt");
    file::create_private_dir(&dir.join("pki"))?;
    file::replace(&config.ca_path, 0o644, server.ca_pem().as_bytes())
        .with_context(|| format!("can't write {}", config.ca_path.display()))?;
    server.set_pod_logs(Arc::new(PodLogFiles::new(&node_dir)));
    server.set_pod_ports(Arc::new(NodePorts(PortDialer::new(&node_dir, config.address))));
    let (node, client) = (Node::new(config)?, server.client());
    let (shutdown, stopped) = (stop.pods.clone(), stop.pods_stopped.clone().drop_guard());
    tasks.spawn(async move {
        let ended = node.run(client, shutdown).await.map_err(anyhow::Error::from);
        drop(stopped);
        ("node", ended)
    });
    Ok(())
}

/// Serves the API to pods that have a network namespace of their own, which do not reach this machine's 127.0.0.1. None if
/// the port is taken there.
async fn serve_attached(
    tasks: &mut JoinSet<Task>,
    server: &Arc<Server>,
    api: SocketAddr,
) -> anyhow::Result<Option<SocketAddr>> {
    let address = SocketAddr::from((MACHINE_ADDRESS, api.port()));
    if api.ip().is_unspecified() {
        return Ok(Some(address));
    }
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::debug!(%error, %address, "pods can't be attached to networks");
            return Ok(None);
        }
    };
    let serving = server.serve(listener, &[MACHINE_ADDRESS.to_string()])?;
    tasks.spawn(async move {
        serving.await;
        ("API server for attached pods", Ok(()))
    });
    Ok(Some(address))
}

/// Reads `IMAGE=PATH`. A program that is missing is refused here, not when a pod needs it much later.
pub(super) fn image_program(text: &str) -> Result<ImageProgram, String> {
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

/// This machine's name as a node's name.
pub(super) fn name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let name = name.trim_matches(['-', '.']).to_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}
