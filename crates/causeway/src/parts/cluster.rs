//! The cluster that a command asks: the control plane on this machine, or the one of a kubeconfig.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::data_dir::{self, DataDirArg};

/// The flags; flatten them into a command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Ask this cluster instead of the control plane on this machine.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        match &self.kubeconfig {
            Some(path) => client(path).await,
            None => client(&local_kubeconfig(&self.data_dir.path()?)?).await,
        }
    }
}

/// A client of the cluster that a kubeconfig names.
pub(crate) async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let read =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("can't read {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("can't use {}", kubeconfig.display()))?;
    Client::try_from(config).context("can't make a client")
}

/// The kubeconfig of the control plane on this machine, which must be running.
fn local_kubeconfig(dir: &Path) -> anyhow::Result<PathBuf> {
    if data_dir::holder(dir)?.is_none() {
        bail!(
            "nothing runs on {}; start it with `causeway up`, or name a cluster with --kubeconfig FILE",
            dir.display()
        );
    }
    Ok(data_dir::kubeconfig(dir))
}
