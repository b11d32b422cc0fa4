//! The demo of an isolated network: one `Infra`, and a machine with nothing but a card gets an address, names and a way to a
//! Service by its name. The machine is a network namespace on the bridge that the network is made of.
//!
//! All is played in a network namespace of its own, which stands for the machine: no firewall and no interface of the real
//! one is in its way.

mod manifests;

use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use causeway_api::Infra;
use causeway_api::conditions::{self, ConditionType};
use causeway_node::networks::{self, Machine};
use ipnet::{IpNet, Ipv4Net};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use rustix::process::{Pid, Signal, kill_process};

use super::cluster::{apply_all, poll, start_control_plane};
use super::proxy::manifests::{Authority, NAMESPACE, namespace, tls_service};
use super::proxy::tls_client::TlsClient;
use super::stage::{Stage, machine};
use super::steps::Steps;
use super::{CommonArgs, Play};
use crate::parts::dhcp_client::{self, Lease};
use crate::parts::dns_question::{self, Answer};
use crate::parts::network_namespace::from_inside;
use crate::parts::termination::Termination;
use manifests::{BRIDGE, DOMAIN, INFRA, infra, network};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Said to the process that plays, by the one that made it a network of its own.
    #[arg(long, hide = true)]
    alone: bool,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What is open at the end of the story.
pub(super) struct Scene {
    client: Client,
    vm: Machine,
}

/// Plays in a process of its own, in a network of its own.
pub(super) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.alone {
        return super::perform(args, &args.common).await;
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can make networks: run `sudo causeway demo infra`; `causeway demo proxy` needs no rights"
    );
    let mut termination = Termination::listen()?;
    let play = || {
        let mut command = std::process::Command::new("/proc/self/exe");
        command.args(std::env::args_os().skip(1)).arg("--alone").spawn()
    };
    let mut child = networks::in_new_network(play).context("can't make a network namespace")?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut ended = tokio::task::spawn_blocking(move || child.wait());
    let status = loop {
        tokio::select! {
            ended = &mut ended => break ended??,
            () = termination.asked() => {
                if let Some(pid) = pid {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

impl Play for Args {
    const NAME: &'static str = "infra";
    type Scene = Scene;

    async fn play(&self, steps: &mut Steps, stage: &mut Stage) -> anyhow::Result<Scene> {
        let up_args = ["--container-runtime".to_owned(), "none".to_owned()];
        let client = start_control_plane(steps, stage, &up_args).await?;
        let authority = Authority::new()?;
        serve(steps, &client, &authority).await?;
        let infra = bring_up(steps, &client, self.common.show).await?;
        let addresses = infra.status.unwrap_or_default().addresses.unwrap_or_default();
        let proxy: IpAddr = address(addresses.proxy.as_deref()).context("no address of the proxy")?;
        let (vm, lease) = boot(steps).await?;
        let resolver = lease.resolvers.first().copied().context("the machine was told no resolver")?;
        let resolver = SocketAddr::new(resolver.into(), 53);
        look_up(steps, &vm.path(), resolver, proxy).await?;
        connect(steps, &vm.path(), resolver, &authority).await?;
        survive(steps, &client, &vm, resolver, &authority, &lease).await?;
        Ok(Scene { client, vm })
    }

    fn hints(&self) -> Vec<String> {
        let (inside, vm) =
            (format!("nsenter --target {} --net", std::process::id()), machine(std::process::id()));
        vec![
            format!("{inside} kubectl -n {NAMESPACE} get infra,causeway,pods"),
            format!("{inside} ip netns exec {vm} dig @192.168.100.3 shop.{DOMAIN}"),
            format!("{inside} causeway doctor infra/{INFRA} -n {NAMESPACE} --kubeconfig $KUBECONFIG"),
        ]
    }

    async fn close(&self, steps: &mut Steps, scene: Scene) -> anyhow::Result<()> {
        let step = async {
            let api: Api<Infra> = Api::namespaced(scene.client.clone(), NAMESPACE);
            api.delete(INFRA, &DeleteParams::default()).await?;
            poll("the Infra to be gone", async || Ok(api.get_opt(INFRA).await?.is_none().then_some(())))
                .await?;
            poll("its pods to be gone", async || Ok(pods(&scene.client).await?.is_empty().then_some(())))
                .await?;
            drop(scene.vm);
            Ok(((), vec!["its servers, their addresses, namespaces and leases went with it".to_owned()]))
        };
        steps.run("Delete the Infra", step).await
    }
}

async fn serve(steps: &mut Steps, client: &Client, authority: &Authority) -> anyhow::Result<()> {
    let step = async {
        let mut objects = vec![namespace(true), network()];
        objects.extend(tls_service("shop", &format!("shop.{DOMAIN}"), authority)?);
        apply_all(client, &objects, false).await?;
        let seen = vec![format!("a NetworkAttachmentDefinition: pods can be attached to bridge {BRIDGE}")];
        Ok(((), seen))
    };
    steps.run("A TLS service on the pod network, and an isolated network that it is not on", step).await
}

async fn bring_up(steps: &mut Steps, client: &Client, show: bool) -> anyhow::Result<Infra> {
    let step = async {
        apply_all(client, &[infra()], show).await?;
        let api: Api<Infra> = Api::namespaced(client.clone(), NAMESPACE);
        let ready = poll("the Infra to be ready", async || {
            let infra = api.get(INFRA).await?;
            let status = infra.status.clone().unwrap_or_default();
            let generation = infra.metadata.generation.unwrap_or_default();
            Ok(conditions::is_true(&status.conditions, ConditionType::Ready, generation).then_some(infra))
        })
        .await?;
        let addresses = ready.status.clone().unwrap_or_default().addresses.unwrap_or_default();
        let text = |address: &Option<String>| address.clone().unwrap_or_default();
        let seen = format!(
            "Ready: DHCP at {}, DNS at {}, proxy at {}",
            text(&addresses.dhcp),
            text(&addresses.dns),
            text(&addresses.proxy)
        );
        Ok((ready, vec![seen]))
    };
    steps.run("One Infra: a DHCP server, a DNS server and a proxy on that network", step).await
}

async fn boot(steps: &mut Steps) -> anyhow::Result<(Machine, Lease)> {
    let step = async {
        let vm = Machine::plug_in(&machine(std::process::id()), BRIDGE).context("can't make a machine")?;
        let lease = from_inside(&vm.path(), || dhcp_client::lease(networks::CARD))??;
        let net = Ipv4Net::with_netmask(lease.address, lease.mask)?;
        vm.set_address(IpNet::V4(net), lease.routers.first().map(|router| (*router).into()))?;
        let routers: Vec<_> = lease.routers.iter().map(ToString::to_string).collect();
        let resolvers: Vec<_> = lease.resolvers.iter().map(ToString::to_string).collect();
        let seen = vec![
            format!("it asks, and has {net}"),
            format!("router {}, resolver {}", routers.join(", "), resolvers.join(", ")),
        ];
        Ok(((vm, lease), seen))
    };
    steps.run("A machine with nothing but a card boots", step).await
}

async fn look_up(steps: &mut Steps, vm: &Path, resolver: SocketAddr, proxy: IpAddr) -> anyhow::Result<()> {
    let step = async {
        let mut seen = Vec::new();
        let shop = format!("shop.{DOMAIN}");
        ensure!(resolve(vm, resolver, &shop)? == proxy, "{shop} is not the proxy");
        seen.push(format!("{shop} is {proxy}, the proxy"));
        let nobody = format!("nobody.{DOMAIN}");
        match from_inside(vm, || dns_question::ask(resolver, &nobody, false))?? {
            Answer::Refused(3) => {
                seen.push(format!("{nobody} does not exist, and nobody else is asked for it"));
            }
            other => bail!("{nobody} is answered with {other:?}"),
        }
        Ok(((), seen))
    };
    steps.run("It asks for names", step).await
}

async fn connect(
    steps: &mut Steps,
    vm: &Path,
    resolver: SocketAddr,
    authority: &Authority,
) -> anyhow::Result<()> {
    let step = async {
        let answer = ask_shop(vm, resolver, authority)?;
        ensure!(answer == "shop", "answered by {answer}");
        Ok((
            (),
            vec![format!(
                "https://shop.{DOMAIN} is answered by {answer}; TLS is the service's own, end to end"
            )],
        ))
    };
    steps.run("It connects to the Service by its name", step).await
}

/// Kills every process that serves the network.
async fn survive(
    steps: &mut Steps,
    client: &Client,
    vm: &Machine,
    resolver: SocketAddr,
    authority: &Authority,
    lease: &Lease,
) -> anyhow::Result<()> {
    let step = async {
        let mut seen = Vec::new();
        for pod in pods(client).await? {
            let path = format!("/run/netns/causeway-{}", pod.uid().unwrap_or_default());
            for pid in processes_in(Path::new(&path))? {
                kill_process(pid, Signal::KILL)?;
            }
        }
        let since = Instant::now();
        poll("the Service to be reached again", async || Ok(ask_shop(&vm.path(), resolver, authority).ok()))
            .await?;
        seen.push(format!(
            "all three servers were killed; {:.1} s later the Service is reached again",
            since.elapsed().as_secs_f64()
        ));
        let again = from_inside(&vm.path(), || dhcp_client::lease(networks::CARD))??;
        ensure!(again.address == lease.address, "the machine has {} now", again.address);
        seen.push(format!("the machine asks again, and {} is still its own", again.address));
        Ok(((), seen))
    };
    steps.run("Every server is killed (kill -9)", step).await
}

fn ask_shop(vm: &Path, resolver: SocketAddr, authority: &Authority) -> anyhow::Result<String> {
    let host = format!("shop.{DOMAIN}");
    let proxy = SocketAddr::new(resolve(vm, resolver, &host)?, 443);
    let client = TlsClient::new(proxy, authority.certificate())?;
    from_inside(vm, || client.ask(&host))?
}

fn resolve(vm: &Path, resolver: SocketAddr, name: &str) -> anyhow::Result<IpAddr> {
    match from_inside(vm, || dns_question::ask(resolver, name, false))?? {
        Answer::Addresses(all) => all.first().copied().with_context(|| format!("{name} has no address")),
        other => bail!("{name} is answered with {other:?}"),
    }
}

/// The pods of the Infra's servers.
async fn pods(client: &Client) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let attached = format!("{}={}", causeway_api::names::LABEL_MANAGED_BY, causeway_api::names::MANAGED_BY);
    Ok(api.list(&ListParams::default().labels(&attached)).await?.items)
}

/// The processes whose network namespace this is.
fn processes_in(namespace: &Path) -> anyhow::Result<Vec<Pid>> {
    use std::os::unix::fs::MetadataExt as _;
    let wanted = std::fs::metadata(namespace)?.ino();
    let numbers =
        std::fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_there = |pid: &i32| {
        std::fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|metadata| metadata.ino() == wanted)
    };
    Ok(numbers.filter(is_there).filter_map(Pid::from_raw).collect())
}

fn address(text: Option<&str>) -> Option<IpAddr> {
    text?.split('/').next()?.parse().ok()
}
