//! Which objects there are: what was made for one of them is no leftover. A control plane that runs is asked; one that does
//! not is opened for a moment, and kept from starting while things are removed.

use std::collections::HashSet;
use std::fmt::Debug;
use std::path::Path;

use anyhow::Context;
use causeway_api::{ContainerNetwork, ContainerNetworkTunnelProxy};
use causeway_apiserver::{Server, Storage};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::parts::cluster;
use crate::parts::data_dir::{self, Held};

/// The objects that may have something on this machine.
pub(super) struct Living {
    /// UIDs of all of them.
    pub(super) uids: HashSet<String>,
    /// Namespace and name of the tunnel proxies.
    pub(super) tunnels: HashSet<(String, String)>,
    /// Whether a control plane works on them at the moment; else it is kept from it.
    pub(super) is_tended: bool,
    _held: Option<Held>,
}

/// Those of this data directory; none if it is no data directory.
pub(super) async fn living(dir: &Path) -> anyhow::Result<Option<Living>> {
    if !dir.join("lock").exists() {
        return Ok(None);
    }
    if data_dir::holder(dir)?.is_some() {
        let client = cluster::client(&data_dir::kubeconfig(dir)).await?;
        return Ok(Some(read(&client, None).await?));
    }
    let held = data_dir::hold(dir)?;
    let shutdown = CancellationToken::new();
    let server = Server::start(Storage::Directory(dir), shutdown.clone()).await?;
    let living = read(&server.client(), Some(held)).await;
    shutdown.cancel();
    server.stopped().await;
    Ok(Some(living?))
}

async fn read(client: &Client, held: Option<Held>) -> anyhow::Result<Living> {
    let tunnels = all::<ContainerNetworkTunnelProxy>(client).await?;
    let names = tunnels.iter().map(|proxy| (proxy.namespace().unwrap_or_default(), proxy.name_any()));
    let networks = all::<ContainerNetwork>(client).await?;
    let pods = all::<Pod>(client).await?;
    let uids = tunnels.iter().filter_map(ResourceExt::uid);
    let uids = uids.chain(networks.iter().filter_map(ResourceExt::uid));
    let uids = uids.chain(pods.iter().filter_map(ResourceExt::uid));
    Ok(Living { uids: uids.collect(), tunnels: names.collect(), is_tended: held.is_none(), _held: held })
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let list = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    Ok(list.with_context(|| format!("can't list {}", K::plural(&())))?.items)
}
