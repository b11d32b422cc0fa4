//! The demo of a tunnel: a program listens on the host's loopback, and a container on a network of Docker or
//! Podman reaches it by name. The tunnel's container is killed and comes back; at the end nothing is left.

mod host_program;
mod manifests;
mod report;

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use causeway_api::conditions::{self, ConditionType};
use causeway_api::{ContainerNetwork, ContainerNetworkTunnelProxy, TunnelStatus};
use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_containers::{Container, Runtime, labels};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;

use super::CommonArgs;
use super::cluster::{apply_all, poll};
use super::control_plane::ControlPlane;
use super::steps::Steps;
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::output;
use host_program::HostProgram;
use manifests::{ALIAS, CHECKER, CLIENT, NAMESPACE, NETWORK, TUNNEL};
use report::Report;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    #[command(flatten)]
    common: CommonArgs,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    let Some(choice) = args.container_runtime.choice() else {
        bail!("this demo needs Docker or Podman; leave `--container-runtime none` out");
    };
    let runtime = steps
        .run("A container runtime", async {
            let runtime = Runtime::connect(&choice).await?;
            let line = format!("{} answers on {}", runtime.kind(), runtime.socket().display());
            Ok((runtime, vec![line]))
        })
        .await?;
    let up_args = ["--container-runtime".to_owned(), runtime.socket().display().to_string()];
    let plane = ControlPlane::start(&mut steps, &up_args).await?;
    let (client, show) = (plane.client.clone(), args.common.show);
    let mut demo = Demo { client, runtime, show, owners: Vec::new() };
    let mut played = play(&mut steps, &mut demo).await;
    if played.is_ok() && args.common.keep {
        output::line(format_args!(
            "still running; try\n  export KUBECONFIG={}",
            plane.kubeconfig().display()
        ));
        output::line(format_args!("  kubectl -n {NAMESPACE} get containernetwork,cntp,pod,endpointslice"));
        output::line(format_args!("  causeway logs cntp/{TUNNEL} -n {NAMESPACE}\nCtrl-C ends it"));
        tokio::signal::ctrl_c().await?;
    }
    if played.is_ok() {
        played = steps.run("Everything is deleted", demo.clean_up()).await;
    }
    if played.is_err() {
        // Nothing may be left in the runtime, whatever went wrong.
        let cleaned = demo.delete_objects().await;
        let log = plane.stop().await?;
        eprintln!("the control plane's log is {}", log.display());
        if let Err(error) = cleaned {
            eprintln!("causeway: not everything could be removed: {error:#}");
        }
        return played;
    }
    plane.remove().await?;
    output::line(
        "all gone but the client's image, which makes the next start quick; everything above was checked",
    );
    Ok(())
}

/// The cluster and the runtime that the demo is played on, and what it has made there.
struct Demo {
    client: Client,
    runtime: Runtime,
    show: bool,
    /// UIDs of the objects that own something in the runtime.
    owners: Vec<String>,
}

async fn play(steps: &mut Steps, demo: &mut Demo) -> anyhow::Result<()> {
    let program = steps
        .run("A program on the host that listens on 127.0.0.1 only", async {
            let program = HostProgram::start().await?;
            let line = format!("an echo server on 127.0.0.1:{}", program.port);
            Ok((program, vec![line]))
        })
        .await?;
    let network = steps.run("A ContainerNetwork", demo.make_network()).await?;
    let tunnel = steps
        .run(
            &format!("A ContainerNetworkTunnelProxy that carries it there as {ALIAS}"),
            demo.make_tunnel(program.port),
        )
        .await?;
    let report = steps
        .run(
            "A container on that network dials the alias and checks what comes back",
            demo.start_checker(&network, &tunnel),
        )
        .await?;
    steps.run("What Kubernetes says of it", demo.show_status()).await?;
    steps.run("The tunnel's container is killed", demo.kill_and_heal(report, &tunnel)).await
}

impl Demo {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn make_network(&mut self) -> anyhow::Result<(String, Vec<String>)> {
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

    async fn make_tunnel(&mut self, port: u16) -> anyhow::Result<(ContainerNetworkTunnelProxy, Vec<String>)> {
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

    async fn ready_tunnel(&self) -> anyhow::Result<ContainerNetworkTunnelProxy> {
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

    async fn start_checker(
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

    async fn show_status(&mut self) -> anyhow::Result<((), Vec<String>)> {
        let api = self.api::<ContainerNetworkTunnelProxy>();
        let (tunnel, one) = poll("the status to count bytes", async || {
            let tunnel = api.get(TUNNEL).await?;
            let one = first_tunnel(&tunnel)?.clone();
            let counted = one.bytes_to_server > Some(0) && one.bytes_to_client > Some(0);
            Ok(counted.then_some((tunnel, one)))
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
                    one.name,
                    one.bytes_to_server.unwrap_or_default(),
                    one.bytes_to_client.unwrap_or_default()
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

    async fn slices(&self) -> anyhow::Result<Vec<EndpointSlice>> {
        let of = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={CLIENT}"));
        Ok(self.api::<EndpointSlice>().list(&of).await?.items)
    }

    async fn kill_and_heal(
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
        let noticed = tokio::time::timeout(std::time::Duration::from_secs(2), failed).await;
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

    async fn container_of(&self, uid: &str) -> anyhow::Result<Option<Container>> {
        Ok(self.runtime.containers(&[(labels::OWNER, uid)]).await?.into_iter().next())
    }

    async fn clean_up(&mut self) -> anyhow::Result<((), Vec<String>)> {
        self.delete_objects().await?;
        let slices = self.slices().await?;
        ensure!(slices.is_empty(), "{} EndpointSlices of {CLIENT} are left", slices.len());
        for owner in &self.owners {
            let containers = self.runtime.containers(&[(labels::OWNER, owner)]).await?;
            ensure!(containers.is_empty(), "container {} is left", containers[0].name);
            let networks = self.runtime.networks(&[(labels::OWNER, owner)]).await?;
            ensure!(networks.is_empty(), "network {} is left", networks[0].name);
        }
        Ok(((), vec!["no container, no network and no EndpointSlice is left".to_owned()]))
    }

    /// Deletes what lives in the runtime, in the order in which it is used, and waits until it is gone.
    async fn delete_objects(&self) -> anyhow::Result<()> {
        self.delete::<Pod>(CHECKER).await?;
        self.delete::<ContainerNetworkTunnelProxy>(TUNNEL).await?;
        self.delete::<ContainerNetwork>(NETWORK).await
    }

    async fn delete<K>(&self, name: &str) -> anyhow::Result<()>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
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

fn first_tunnel(proxy: &ContainerNetworkTunnelProxy) -> anyhow::Result<&TunnelStatus> {
    let statuses = proxy.status.as_ref().map_or(&[][..], |status| &status.tunnel_statuses);
    statuses.first().context("its status has no tunnel")
}
