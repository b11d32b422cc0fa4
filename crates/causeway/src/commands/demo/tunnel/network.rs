//! The network of the runtime that containers are on.

use anyhow::Context;
use causeway_api::ContainerNetwork;
use causeway_api::conditions::{self, ConditionType};
use kube::ResourceExt;

use super::Scene;
use super::manifests::{self, NETWORK};
use crate::commands::demo::cluster::{apply_all, poll};

impl Scene {
    pub(super) async fn make_network(&mut self) -> anyhow::Result<(String, Vec<String>)> {
        apply_all(&self.client, &[manifests::namespace(), manifests::network()], self.show).await?;
        let api = self.api::<ContainerNetwork>();
        let network = poll("the ContainerNetwork to be ready", async || {
            let network = api.get(NETWORK).await?;
            let conditions = network.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let generation = network.metadata.generation.unwrap_or_default();
            Ok(conditions::is_true(conditions, ConditionType::Ready, generation).then_some(network))
        })
        .await?;
        self.owners.extend(network.uid());
        let status = network.status.unwrap_or_default();
        let name = status.network_name.context("its status has no networkName")?;
        let line = format!("{name} with {}", status.subnets.join(", "));
        Ok((name, vec![line]))
    }
}
