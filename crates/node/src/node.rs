//! The node as a whole: everything it runs, with one start and one end.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use causeway_base::file::create_private_dir;
use http::Uri;
use kube::{Client, config::Kubeconfig};
use tokio_util::sync::CancellationToken;

use crate::{
    claims,
    config::Config,
    endpoints,
    events::Recorder,
    layout::PodDir,
    network,
    pod::{self, Addresses, ApiServer, Containers, Shared},
    registration, workload,
};

/// How long controllers may go on after a shutdown.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The data directory is not usable.
    #[error("cannot use the node's data directory {path}; it must be writable")]
    DataDir { path: PathBuf, source: io::Error },
}

/// The local node.
pub struct Node {
    config: Config,
}

impl Node {
    /// A node with this setup; its data directory is made if it is not there.
    ///
    /// # Errors
    /// When the directory can't be made or used.
    pub fn new(mut config: Config) -> Result<Self, NodeError> {
        let unusable = |source| NodeError::DataDir { path: config.data_dir.clone(), source };
        create_private_dir(&config.data_dir).map_err(unusable)?;
        // Children have another working directory, so every path they get is absolute.
        config.data_dir = fs::canonicalize(&config.data_dir).map_err(unusable)?;
        Ok(Self { config })
    }

    /// Runs pods, workloads and endpoints until `shutdown`; returns when the pods are at rest as the setup says.
    ///
    /// # Errors
    /// When the node can't register itself or a part of it ends.
    pub async fn run(self, client: Client, shutdown: CancellationToken) -> Result<(), NodeError> {
        let config = self.config;
        let name = config.name.clone();
        let address = config.address;
        let pods = PodDir::all(&config.data_dir)
            .map_err(|source| NodeError::DataDir { path: config.data_dir.clone(), source })?;
        let (data_dir, claimer) =
            (config.data_dir.clone(), Recorder::new(client.clone(), "persistentvolume-controller", &name));
        let controllers = Recorder::new(client.clone(), "controller-manager", &name);
        let shared = Arc::new(Shared {
            recorder: Recorder::new(client.clone(), "kubelet", &name),
            api: api_server(&config),
            attached_api: config.attached_api.map(|address| ApiServer {
                url: format!("https://{address}"),
                host: address.ip().to_string(),
                port: address.port(),
            }),
            machine: registration::capacity(),
            client: client.clone(),
            addresses: Addresses::load(config.pod_addresses.clone(), &pods),
            containers: Containers::new(config.containers.clone(), &config.data_dir)
                .map_err(|source| NodeError::DataDir { path: config.data_dir.clone(), source })?,
            config,
        });
        // Boxed, since each of them is a large state machine.
        tokio::join!(
            Box::pin(registration::run(client.clone(), name, address, shutdown.clone())),
            Box::pin(within_grace(workload::run(client.clone(), controllers, shutdown.clone()), &shutdown)),
            Box::pin(within_grace(endpoints::run(client.clone(), shutdown.clone()), &shutdown)),
            Box::pin(within_grace(claims::run(client, claimer, data_dir, shutdown.clone()), &shutdown)),
            Box::pin(network::keep(shutdown.clone())),
            Box::pin(pod::run(shared, shutdown.clone())),
        );
        network::remove_idle_bridges();
        Ok(())
    }
}

/// Ends controllers a while after the shutdown: one whose caches never filled does not end by itself.
async fn within_grace(controllers: impl Future<Output = ()>, shutdown: &CancellationToken) {
    tokio::select! {
        () = controllers => {}
        () = async { shutdown.cancelled().await; tokio::time::sleep(STOP_GRACE).await } => {}
    }
}

/// The API server's address from the kubeconfig; without one, pods get no way to it.
fn api_server(config: &Config) -> Option<ApiServer> {
    let kubeconfig = Kubeconfig::read_from(&config.kubeconfig).ok()?;
    let url = kubeconfig.clusters.into_iter().find_map(|cluster| cluster.cluster?.server)?;
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(443);
    Some(ApiServer { url, host, port })
}
