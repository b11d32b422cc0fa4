//! The tunnel proxy: made, its status shown, and its container killed.

use std::time::Instant;

use anyhow::{Context, ensure};
use causeway_api::conditions::{self, ConditionType};
use causeway_api::{ContainerNetworkTunnelProxy, TunnelStatus};
use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_containers::{Container, labels};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::ListParams;

use super::Scene;
use super::manifests::{self, ALIAS, CLIENT, NAMESPACE, TUNNEL};
use crate::commands::demo::cluster::{apply_all, poll};
use crate::parts::tunnel_figures;

impl Scene {
    pub(super) async fn make_tunnel(
        &mut self,
        port: u16,
    ) -> anyhow::Result<(ContainerNetworkTunnelProxy, Vec<String>)> {
        let [service, slice] = manifests::server_service(port);
        let objects = [service, slice, manifests::client_service(port), manifests::tunnel_proxy()];
        let start = Instant::now();
        apply_all(&self.client, &objects, self.show).await?;
        self.owners.extend(self.api::<ContainerNetworkTunnelProxy>().get(TUNNEL).await?.uid());
        let tunnel = self.ready_tunnel().await?;
        let took = start.elapsed();
        let status = tunnel.status.clone().unwrap_or_default();
        let image = status.client_proxy_container_image.unwrap_or_default();
        let one = first_tunnel(&tunnel)?;
        let port = one.client_proxy_port.unwrap_or_default();
        let lines = vec![
            format!(
                "Ready after {:.1} s, its image {image} made on the spot if it was missing",
                took.as_secs_f64()
            ),
            format!("{ALIAS}:{port} is {} on the network", one.client_proxy_addresses.join(", ")),
        ];
        Ok((tunnel, lines))
    }

    pub(super) async fn ready_tunnel(&self) -> anyhow::Result<ContainerNetworkTunnelProxy> {
        let api = self.api::<ContainerNetworkTunnelProxy>();
        poll("the ContainerNetworkTunnelProxy to be ready", async || {
            let tunnel = api.get(TUNNEL).await?;
            let status = tunnel.status.clone().unwrap_or_default();
            let generation = tunnel.metadata.generation.unwrap_or_default();
            let ready = conditions::is_true(&status.conditions, ConditionType::Ready, generation);
            Ok(ready.then_some(tunnel))
        })
        .await
        .with_context(|| format!("look with `causeway logs cntp/{TUNNEL} -n {NAMESPACE}`"))
    }

    pub(super) async fn show_status(&mut self) -> anyhow::Result<((), Vec<String>)> {
        let api = self.api::<ContainerNetworkTunnelProxy>();
        let tunnel = api.get(TUNNEL).await?;
        let one = first_tunnel(&tunnel)?.clone();
        let key = (NAMESPACE.to_owned(), TUNNEL.to_owned(), one.name.clone());
        let carried = poll("the metrics to count bytes", async || {
            let figures = tunnel_figures::read(&self.client).await.get(&key).copied();
            Ok(figures.filter(|now| now.bytes_to_host > 0 && now.bytes_to_containers > 0))
        })
        .await?;
        let slices = self.slices().await?;
        let addresses: Vec<_> =
            slices.iter().flat_map(|slice| &slice.endpoints).flat_map(|e| &e.addresses).collect();
        ensure!(
            addresses.iter().all(|address| one.client_proxy_addresses.contains(address))
                && !addresses.is_empty(),
            "the Service {CLIENT} leads to {addresses:?}, the tunnel is on {:?}",
            one.client_proxy_addresses
        );
        let status = tunnel.status.unwrap_or_default();
        let ports = [status.client_proxy_control_port, status.client_proxy_data_port];
        let [control, data] = ports.map(Option::unwrap_or_default);
        Ok((
            (),
            vec![
                format!(
                    "tunnel {}: {} bytes to the host, {} bytes to containers",
                    one.name, carried.bytes_to_host, carried.bytes_to_containers
                ),
                format!(
                    "Service {CLIENT} has the EndpointSlice {}",
                    slices.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(", ")
                ),
                format!(
                    "all that the host has opened: 127.0.0.1:{control} and 127.0.0.1:{data}, for the pair alone"
                ),
            ],
        ))
    }

    pub(super) async fn slices(&self) -> anyhow::Result<Vec<EndpointSlice>> {
        let of = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={CLIENT}"));
        Ok(self.api::<EndpointSlice>().list(&of).await?.items)
    }

    pub(super) async fn container_of(&self, uid: &str) -> anyhow::Result<Option<Container>> {
        Ok(self.runtime.containers(&[(labels::OWNER, uid)]).await?.into_iter().next())
    }
}

pub(super) fn first_tunnel(proxy: &ContainerNetworkTunnelProxy) -> anyhow::Result<&TunnelStatus> {
    let statuses = proxy.status.as_ref().map_or(&[][..], |status| &status.tunnel_statuses);
    statuses.first().context("its status has no tunnel")
}
