//! The end of the story: the objects are deleted, and what they had in the runtime goes with them.

use std::fmt::Debug;

use anyhow::{Context, ensure};
use causeway_api::{ContainerNetwork, ContainerNetworkTunnelProxy};
use causeway_containers::labels;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde::de::DeserializeOwned;

use super::Scene;
use super::manifests::{CHECKER, CLIENT, NETWORK, TUNNEL};
use crate::commands::demo::cluster::poll;

impl Scene {
    pub(super) async fn clean_up(&mut self) -> anyhow::Result<((), Vec<String>)> {
        self.delete_objects().await?;
        let slices = self.slices().await?;
        ensure!(slices.is_empty(), "{} EndpointSlices of {CLIENT} are left", slices.len());
        for owner in &self.owners {
            let containers = self.runtime.containers(&[(labels::OWNER, owner)]).await?;
            ensure!(containers.is_empty(), "container {} is left", containers[0].name);
            let networks = self.runtime.networks(&[(labels::OWNER, owner)]).await?;
            ensure!(networks.is_empty(), "network {} is left", networks[0].name);
        }
        Ok(((), vec!["no container, no network and no EndpointSlice is left, only the client's image, which makes the next start quick".to_owned()]))
    }

    /// Deletes what lives in the runtime, in the order in which it is used, and waits until it is gone.
    async fn delete_objects(&self) -> anyhow::Result<()> {
        self.delete::<Pod>(CHECKER).await?;
        self.delete::<ContainerNetworkTunnelProxy>(TUNNEL).await?;
        self.delete::<ContainerNetwork>(NETWORK).await
    }

    async fn delete<K>(&self, name: &str) -> anyhow::Result<()>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let api = self.api::<K>();
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("can't delete {name}")),
        }
        poll(&format!("{name} to be gone"), async || Ok(api.get_opt(name).await?.is_none().then_some(())))
            .await
    }
}
