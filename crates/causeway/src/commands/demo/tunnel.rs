//! The demo of a tunnel: a program listens on the host's loopback, and a container on a network of Docker or
//! Podman reaches it by name. The tunnel's container is killed and comes back; at the end nothing is left.

mod checker;
mod clean_up;
mod host_program;
mod manifests;
mod network;
mod proxy;
mod report;

use anyhow::bail;
use causeway_containers::Runtime;
use kube::Client;
use kube::api::Api;

use super::cluster::start_control_plane;
use super::stage::Stage;
use super::steps::Steps;
use super::{CommonArgs, Play};
use crate::parts::container_runtime::ContainerRuntimeArg;
use host_program::HostProgram;
use manifests::{ALIAS, NAMESPACE, TUNNEL};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// The cluster and the runtime that the demo is played on, and what it has made there.
pub(super) struct Scene {
    client: Client,
    runtime: Runtime,
    show: bool,
    /// UIDs of the objects that own something in the runtime.
    owners: Vec<String>,
    program: HostProgram,
}

impl Play for Args {
    const NAME: &'static str = "tunnel";
    type Scene = Scene;

    async fn play(&self, steps: &mut Steps, stage: &mut Stage) -> anyhow::Result<Scene> {
        let Some(choice) = self.container_runtime.choice() else {
            bail!("this demo needs Docker or Podman; leave `--container-runtime none` out");
        };
        let runtime = steps
            .run("A container runtime", async {
                let runtime = Runtime::connect(&choice).await?;
                let line = format!("{} answers on {}", runtime.kind(), runtime.socket().display());
                Ok((runtime, vec![line]))
            })
            .await?;
        stage.uses(&runtime)?;
        let up_args = ["--container-runtime".to_owned(), runtime.socket().display().to_string()];
        let client = start_control_plane(steps, stage, &up_args).await?;
        let program = steps
            .run("A program on the host that listens on 127.0.0.1 only", async {
                let program = HostProgram::start().await?;
                let line = format!("an echo server on 127.0.0.1:{}", program.port);
                Ok((program, vec![line]))
            })
            .await?;
        let mut scene = Scene { client, runtime, show: self.common.show, owners: Vec::new(), program };
        scene.play(steps).await?;
        Ok(scene)
    }

    fn hints(&self) -> Vec<String> {
        vec![
            format!("kubectl -n {NAMESPACE} get containernetwork,cntp,pod,endpointslice"),
            format!("causeway logs cntp/{TUNNEL} -n {NAMESPACE}"),
        ]
    }

    async fn close(&self, steps: &mut Steps, mut scene: Scene) -> anyhow::Result<()> {
        steps.run("Everything is deleted", scene.clean_up()).await
    }
}

impl Scene {
    async fn play(&mut self, steps: &mut Steps) -> anyhow::Result<()> {
        let network = steps.run("A ContainerNetwork", self.make_network()).await?;
        let tunnel = steps
            .run(
                &format!("A ContainerNetworkTunnelProxy that carries it there as {ALIAS}"),
                self.make_tunnel(self.program.port),
            )
            .await?;
        let report = steps
            .run(
                "A container on that network dials the alias and checks what comes back",
                self.start_checker(&network, &tunnel),
            )
            .await?;
        steps.run("What Kubernetes says of it", self.show_status()).await?;
        steps.run("The tunnel's container is killed", self.kill_and_heal(report, &tunnel)).await
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}
