//! The container that dials the alias and checks what comes back.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_api::ContainerNetworkTunnelProxy;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::Scene;
use super::manifests::{self, ALIAS, CHECKER};
use super::proxy::first_tunnel;
use super::report::{self, Report};
use crate::commands::demo::cluster::{apply_all, poll};

impl Scene {
    pub(super) async fn start_checker(
        &mut self,
        network: &str,
        tunnel: &ContainerNetworkTunnelProxy,
    ) -> anyhow::Result<(u16, Vec<String>)> {
        let image = tunnel.status.as_ref().and_then(|status| status.client_proxy_container_image.clone());
        let image = image.context("its status has no clientProxyContainerImage")?;
        let port = first_tunnel(tunnel)?.client_proxy_port.context("its status has no clientProxyPort")?;
        let report_port = report::free_port().await?;
        let checker = manifests::checker(network, &image, &format!("{ALIAS}:{port}"), report_port);
        apply_all(&self.client, &[checker], self.show).await?;
        self.owners.extend(self.api::<Pod>().get(CHECKER).await?.uid());
        let report = poll("the checker to report", async || {
            Ok(Report::ask(report_port).await.filter(Report::is_well))
        })
        .await?;
        let line = format!(
            "it reports over HTTP: every line sent to {ALIAS}:{port} came back, in {} ms",
            report.millis
        );
        Ok((report_port, vec![line]))
    }

    pub(super) async fn kill_and_heal(
        &mut self,
        report_port: u16,
        before: &ContainerNetworkTunnelProxy,
    ) -> anyhow::Result<((), Vec<String>)> {
        let uid = before.uid().context("it has no uid")?;
        let container = self.container_of(&uid).await?.context("it has no container")?;
        let port = first_tunnel(before)?.client_proxy_port;
        let start = Instant::now();
        self.runtime.kill(&container.id, "SIGKILL").await?;
        let failed = poll("the checker to notice", async || {
            Ok(Report::ask(report_port).await.filter(|report| !report.is_well()))
        });
        // It may be served again before a report of the failure is seen.
        let noticed = tokio::time::timeout(Duration::from_secs(2), failed).await;
        let known = match noticed {
            Ok(report) => report?.passed,
            Err(_) => Report::ask(report_port).await.map_or(0, |report| report.passed),
        };
        poll("the checker to be served again", async || {
            Ok(Report::ask(report_port).await.filter(|report| report.is_well() && report.passed > known))
        })
        .await?;
        let took = start.elapsed();
        let after = self.ready_tunnel().await?;
        let now = self.container_of(&uid).await?.context("it has no container")?;
        ensure!(now.name == container.name, "the container is {} now, was {}", now.name, container.name);
        let port_now = first_tunnel(&after)?.client_proxy_port;
        ensure!(port == port_now, "the port is {port_now:?} now, was {port:?}");
        let report = Report::ask(report_port).await.context("the checker does not report")?;
        Ok((
            (),
            vec![
                format!(
                    "served again {:.1} s after the kill, with no change of the resource",
                    took.as_secs_f64()
                ),
                format!("same name ({}), same port ({})", now.name, port.unwrap_or_default()),
                format!(
                    "the checker counts {} rounds that passed, {} that did not",
                    report.passed, report.failed
                ),
            ],
        ))
    }
}
