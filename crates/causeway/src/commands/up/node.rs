//! The node in this process: what it is called, which programs stand for images, and how it is started.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use causeway_api::names;
use causeway_apiserver::Server;
use causeway_base::file;
use causeway_node::{Config, ImageProgram, Node};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::logs::PodLogFiles;
use super::{Args, Task};
use crate::parts::own_program;

pub(super) fn start(
    tasks: &mut JoinSet<Task>,
    server: &Arc<Server>,
    dir: &Path,
    kubeconfig: &Path,
    args: &Args,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let node_dir = dir.join("node");
    let mut config = Config::new(name(), &node_dir, own_program::path()?);
    names::OWN_IMAGE.clone_into(&mut config.own_image);
    kubeconfig.clone_into(&mut config.kubeconfig);
    args.programs.clone_into(&mut config.programs);
    config.containers = args.container_runtime.choice();
    config.ca_path = dir.join("pki").join("ca.crt");
    file::create_private_dir(&dir.join("pki"))?;
    file::replace(&config.ca_path, 0o644, server.ca_pem().as_bytes())
        .with_context(|| format!("can't write {}", config.ca_path.display()))?;
    server.set_pod_logs(Arc::new(PodLogFiles::new(&node_dir)));
    let (node, client, stop) = (Node::new(config)?, server.client(), shutdown.clone());
    tasks.spawn(async move { ("node", node.run(client, stop).await.map_err(anyhow::Error::from)) });
    Ok(())
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
