//! The demo of an intercept: a service in the cluster, a developer's machine that connects, and requests with a header that reach
//! a program on it while all others go on as before. The machine dies, and nobody notices; it comes back; at the end nothing is
//! left. The developer's machine is this one, with a directory of its own, and what it does are commands that anybody can type.

mod clients;
mod developer;
mod manifests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_api::{InterceptRequest, Workstation};
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Client};

use super::cluster::{apply_all, poll, start_control_plane, wait_for_endpoint};
use super::stage::Stage;
use super::steps::Steps;
use super::{CommonArgs, Play};
use clients::{Clients, ask};
use developer::{Developer, LocalProgram};
use manifests::{LAPTOP, NAMESPACE, SHOP, namespace, shop};

/// The header of the developer's own requests.
const HEADER: (&str, &str) = ("x-user", "me");
/// How long matched requests may miss the laptop's answer after it died; docs/intercepts.md promises it.
const RECOVERED_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What is open at the end of the story.
pub(super) struct Scene {
    client: Client,
    developer: Developer,
    service: SocketAddr,
    clients: Clients,
    _program: LocalProgram,
    /// The Service's selector before anything happened.
    selector: Option<std::collections::BTreeMap<String, String>>,
}

impl Play for Args {
    const NAME: &'static str = "intercept";
    type Scene = Scene;

    async fn play(&self, steps: &mut Steps, stage: &mut Stage) -> anyhow::Result<Scene> {
        let up_args = ["--container-runtime".to_owned(), "none".to_owned()];
        let client = start_control_plane(steps, stage, &up_args).await?;
        let developer = Developer::new(stage)?;
        let (service, selector) = serve(steps, &client).await?;
        let clients = Clients::start(service);
        connect(steps, &developer).await?;
        look(steps, &developer).await?;
        let program = LocalProgram::start().await?;
        intercept(steps, &developer, &program, service).await?;
        die(steps, &developer, service).await?;
        come_back(steps, &developer, service).await?;
        Ok(Scene { client, developer, service, clients, _program: program, selector })
    }

    fn hints(&self) -> Vec<String> {
        vec![
            format!("kubectl -n {NAMESPACE} get workstations,interceptrequests,pods,services"),
            format!("causeway intercepts -n {NAMESPACE} --kubeconfig $KUBECONFIG"),
        ]
    }

    async fn close(&self, steps: &mut Steps, scene: Scene) -> anyhow::Result<()> {
        let step = async {
            scene.developer.run(&["disconnect"]).await?;
            let service = api::<Service>(&scene.client).get(SHOP).await?;
            let selector = service.spec.and_then(|spec| spec.selector);
            ensure!(selector == scene.selector, "the Service's selector is {selector:?}");
            let requests =
                api::<InterceptRequest>(&scene.client).list(&ListParams::default()).await?.items.len();
            let machines = api::<Workstation>(&scene.client).list(&ListParams::default()).await?.items.len();
            ensure!(requests + machines == 0, "{requests} intercepts and {machines} Workstations are left");
            ensure!(scene.developer.has_nothing(), "something is left of the developer's machine");
            let answer = ask(scene.service, Some(HEADER)).await?;
            ensure!(answer == SHOP, "a request is answered by {answer}");
            let (asked, failed) = scene.clients.end().await;
            ensure!(failed.is_empty(), "{} of {asked} requests failed: {:?}", failed.len(), failed.first());
            Ok((
                (),
                vec![
                    "$ causeway disconnect".to_owned(),
                    "the Service is as it was; no Workstation, no intercept, no key and no process is left"
                        .to_owned(),
                    format!("{asked} requests of others in the whole story, none failed"),
                ],
            ))
        };
        steps.run("The developer leaves", step).await
    }
}

fn api<K>(client: &Client) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), NAMESPACE)
}

/// The address of the Service, and its selector.
async fn serve(
    steps: &mut Steps,
    client: &Client,
) -> anyhow::Result<(SocketAddr, Option<std::collections::BTreeMap<String, String>>)> {
    let step = async {
        let mut objects = vec![namespace()];
        objects.extend(shop());
        apply_all(client, &objects, false).await?;
        wait_for_endpoint(client, NAMESPACE, SHOP).await?;
        let spec = api::<Service>(client).get(SHOP).await?.spec.context("the Service has no spec")?;
        let address = spec.cluster_ip.context("the Service has no address")?.parse()?;
        let service = SocketAddr::new(address, manifests::PORT);
        let answer = poll("the Service to answer", async || Ok(ask(service, None).await.ok())).await?;
        ensure!(answer == SHOP, "it is answered by {answer}");
        Ok((
            (service, spec.selector),
            vec![format!("http://{SHOP}.{NAMESPACE} ({service}) is answered by {answer}")],
        ))
    };
    steps.run("A small service in the cluster, with clients that keep asking", step).await
}

async fn connect(steps: &mut Steps, developer: &Developer) -> anyhow::Result<()> {
    let step = async {
        let answer = developer.json(&["connect", "--name", LAPTOP]).await?;
        let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
        Ok((
            (),
            vec![
                format!("$ causeway connect --name {LAPTOP}"),
                format!("connected by {} ({}): {}", text("way"), text("via"), text("why")),
                "no root, no container: a process of this user, with keys that never leave it".to_owned(),
            ],
        ))
    };
    steps.run("A developer's machine connects", step).await
}

async fn look(steps: &mut Steps, developer: &Developer) -> anyhow::Result<()> {
    let step = async {
        let program = crate::parts::own_program::path()?.display().to_string();
        let to = format!("{SHOP}:{}", manifests::PORT);
        let command = ["run", "--quiet", "--network", "own", "--", &program, "echo", "--check", &to];
        let ran = developer.try_run(&command).await?;
        let said = format!("$ causeway run -- causeway echo --check {to}");
        if ran.1.contains("can't have a network of its own") {
            return Ok(((), vec![said, format!("not on this machine: {}", ran.1.trim())]));
        }
        ensure!(ran.0, "{}", ran.1);
        Ok(((), vec![said, format!("a process here reaches the service by its name, {SHOP}")]))
    };
    steps.run("A process on it sees the cluster", step).await
}

async fn intercept(
    steps: &mut Steps,
    developer: &Developer,
    program: &LocalProgram,
    service: SocketAddr,
) -> anyhow::Result<()> {
    let step = async {
        let (pair, header) = (format!("{}:http", program.port), format!("{}={}", HEADER.0, HEADER.1));
        let target = format!("deploy/{SHOP}");
        let start = Instant::now();
        let answer = developer.json(&["intercept", &target, "--port", &pair, "--header", &header]).await?;
        let seconds = start.elapsed().as_secs_f64();
        ensure!(answer["active"] == true, "it is not active: {answer}");
        let (with, without) = (ask(service, Some(HEADER)).await?, ask(service, None).await?);
        ensure!(with == LAPTOP && without == SHOP, "answered by {with} and {without}");
        Ok((
            (),
            vec![
                format!("$ causeway intercept {target} --port {pair} --header {header}"),
                format!("active after {seconds:.1} s; no pod was restarted"),
                format!("a request with {}: {} is answered by {with}", HEADER.0, HEADER.1),
                format!("a request without it is answered by {without}"),
            ],
        ))
    };
    steps.run("Requests with a header come to a program on it", step).await
}

async fn die(steps: &mut Steps, developer: &Developer, service: SocketAddr) -> anyhow::Result<()> {
    let step = async {
        let pid = developer.kill()?;
        let start = Instant::now();
        let mut failed = 0;
        let recovered = loop {
            match ask(service, Some(HEADER)).await {
                Ok(answer) if answer == SHOP => break start.elapsed(),
                Ok(_) | Err(_) => failed += 1,
            }
            ensure!(start.elapsed() < super::cluster::TIMEOUT, "nobody answers in the laptop's place");
        };
        ensure!(recovered < RECOVERED_WITHIN, "it took {:.1} s", recovered.as_secs_f64());
        Ok((
            (),
            vec![
                format!("$ kill -9 {pid}"),
                format!(
                    "the developer's requests are answered by {SHOP} after {} ms ({failed} of them were lost)",
                    recovered.as_millis()
                ),
            ],
        ))
    };
    steps.run("The machine dies: its daemon is killed", step).await
}

async fn come_back(steps: &mut Steps, developer: &Developer, service: SocketAddr) -> anyhow::Result<()> {
    let step = async {
        let start = Instant::now();
        developer.json(&["connect", "--name", LAPTOP]).await?;
        poll("the laptop to answer again", async || {
            Ok((ask(service, Some(HEADER)).await.ok().as_deref() == Some(LAPTOP)).then_some(()))
        })
        .await?;
        let seconds = start.elapsed().as_secs_f64();
        let seen = format!("the same keys, the same intercept: requests come again after {seconds:.1} s");
        Ok(((), vec![format!("$ causeway connect --name {LAPTOP}"), seen]))
    };
    steps.run("The machine comes back", step).await
}
