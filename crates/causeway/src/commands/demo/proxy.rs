//! The demo of a proxy by name: TLS services in pods, a `ProxyServer` in front of them, requests by name, and a backend
//! that moves while a connection is open and others keep coming. Certificates are checked end to end, so the proxy can't
//! have terminated TLS.

pub(super) mod manifests;
pub(super) mod tls_client;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use causeway_api::ProxyServer;
use causeway_api::conditions::{self, ConditionType};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::cluster::{TIMEOUT, apply_all, poll, start_control_plane, wait_for_endpoint};
use super::stage::Stage;
use super::steps::Steps;
use super::{CommonArgs, Play};
use manifests::{NAMESPACE, PORT, PROXY, SERVER_IP};
use tls_client::TlsClient;

/// How long a change of the spec may take to reach traffic; docs/proxy.md promises it.
const CHANGE_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Let this Envoy carry the traffic, configured by Causeway.
    #[arg(long, value_name = "PATH")]
    envoy: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Play for Args {
    const NAME: &'static str = "proxy";
    type Scene = ();

    async fn play(&self, steps: &mut Steps, stage: &mut Stage) -> anyhow::Result<()> {
        let mut up_args = Vec::new();
        if let Some(envoy) = &self.envoy {
            up_args.push("--program".to_owned());
            up_args.push(format!("{}={}", causeway_api::names::ENVOY_IMAGE, envoy.display()));
        }
        let client = start_control_plane(steps, stage, &up_args).await?;
        play(steps, self, &client).await
    }

    fn hints(&self) -> Vec<String> {
        vec![format!("kubectl -n {NAMESPACE} get proxyserver,deployment,pod")]
    }

    /// Its pods end with the control plane.
    async fn close(&self, _: &mut Steps, (): ()) -> anyhow::Result<()> {
        Ok(())
    }
}

async fn play(steps: &mut Steps, args: &Args, client: &Client) -> anyhow::Result<()> {
    let authority = manifests::Authority::new()?;
    let outside = TlsClient::new(SocketAddr::new(SERVER_IP.into(), PORT), authority.certificate())?;

    steps
        .run("Three TLS services, each with its own certificate: shop, shop-v2, blog", async {
            let mut objects = vec![manifests::namespace(args.envoy.is_some())];
            for (name, host) in [("shop", "shop"), ("shop-v2", "shop"), ("blog", "blog")] {
                objects.extend(manifests::tls_service(name, &format!("{host}.demo.test"), &authority)?);
            }
            apply_all(client, &objects, false).await?;
            for name in ["shop", "shop-v2", "blog"] {
                wait_for_endpoint(client, NAMESPACE, name).await?;
            }
            Ok(((), vec!["pods run, EndpointSlices have ready endpoints".to_owned()]))
        })
        .await?;

    let engine = if args.envoy.is_some() { "Envoy" } else { "Native" };
    steps
        .run(&format!("A ProxyServer on {SERVER_IP}:{PORT} (engine {engine}), one backend per name"), async {
            apply_all(client, &[manifests::proxy_server(engine)], args.common.show).await?;
            let proxy = wait_until_ready(client).await?;
            let status = proxy.status.unwrap_or_default();
            let ready = conditions::find(&status.conditions, ConditionType::Ready);
            let ready = ready.map(|condition| condition.message.clone()).unwrap_or_default();
            Ok(((), vec![format!("Ready: {ready}")]))
        })
        .await?;

    steps
        .run("Requests by name; TLS is the services' own, end to end", async {
            let mut seen = Vec::new();
            for (host, service) in [("shop.demo.test", "shop"), ("blog.demo.test", "blog")] {
                let answer = outside.ask(host).await?;
                ensure!(answer == service, "{host} was answered by {answer}, not by {service}");
                seen.push(format!("https://{host}:{PORT} is answered by {answer}"));
            }
            Ok(((), seen))
        })
        .await?;

    steps
        .run("A name that no backend has", async {
            let refusal = outside.refusal("nobody.demo.test").await?;
            Ok(((), vec![format!("nobody.demo.test is refused: {refusal}")]))
        })
        .await?;

    steps
        .run(
            "shop moves to shop-v2 while a connection is open and requests keep coming",
            move_shop(client, &outside),
        )
        .await?;

    steps
        .run("What Kubernetes says of it", async {
            let api: Api<ProxyServer> = Api::namespaced(client.clone(), NAMESPACE);
            let status = api.get(PROXY).await?.status.unwrap_or_default();
            let (ready, all) = (status.ready_backends.unwrap_or(0), status.backend_count.unwrap_or(0));
            ensure!(
                (ready, all) == (2, 2),
                "the status counts {ready} of {all} backends as ready, not 2 of 2"
            );
            let seen =
                vec![format!("{ready} of {all} backends are ready; connections and bytes are metrics")];
            Ok(((), seen))
        })
        .await
}

/// Changes one backend under load and measures when the change is seen.
async fn move_shop(client: &Client, outside: &TlsClient) -> anyhow::Result<((), Vec<String>)> {
    let mut open = outside.open("shop.demo.test").await?;
    open.echo(b"before the change").await?;
    let proxies: Api<ProxyServer> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({"apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer",
        "spec": manifests::proxy_spec(&manifests::engine_of(&proxies.get(PROXY).await?), "shop-v2")});
    let start = Instant::now();
    proxies.patch(PROXY, &PatchParams::apply("demo").force(), &Patch::Apply(patch)).await?;
    let mut asked = 0;
    let moved = loop {
        let answer = outside.ask("shop.demo.test").await.context("a request failed during the change")?;
        asked += 1;
        match answer.as_str() {
            "shop-v2" => break start.elapsed(),
            "shop" => ensure!(start.elapsed() < TIMEOUT, "the change did not arrive"),
            other => bail!("shop.demo.test was answered by {other}"),
        }
    };
    ensure!(
        moved < CHANGE_WITHIN,
        "the change took {:.2} s, more than {} s",
        moved.as_secs_f64(),
        CHANGE_WITHIN.as_secs()
    );
    open.echo(b"after the change").await.context("the open connection did not survive the change")?;
    Ok((
        (),
        vec![
            format!("shop.demo.test is answered by shop-v2 after {} ms", moved.as_millis()),
            format!("{asked} requests meanwhile, none failed"),
            "the connection that was open still reaches the old shop".to_owned(),
        ],
    ))
}

async fn wait_until_ready(client: &Client) -> anyhow::Result<ProxyServer> {
    let api: Api<ProxyServer> = Api::namespaced(client.clone(), NAMESPACE);
    poll("the ProxyServer to be ready", async || {
        let proxy = api.get(PROXY).await?;
        let status = proxy.status.clone().unwrap_or_default();
        let ready = conditions::is_true(
            &status.conditions,
            ConditionType::Ready,
            proxy.metadata.generation.unwrap_or_default(),
        );
        Ok(ready.then_some(proxy))
    })
    .await
}
