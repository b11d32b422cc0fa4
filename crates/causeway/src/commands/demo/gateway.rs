//! The demo of a Gateway: one team has it, two others publish hosts on it by routes of their own. Traffic moves by weight and
//! the certificate changes while requests keep coming, and a mistake of one team is told to it and harms nobody else.

pub(super) mod manifests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::cluster::{apply_all, poll, start_control_plane, wait_for_endpoint};
use super::proxy::manifests::Authority;
use super::proxy::tls_client::{TlsClient, request};
use super::stage::Stage;
use super::steps::Steps;
use super::{CommonArgs, Play};
use manifests::{GATEWAY, HTTP, HTTPS, NAMESPACE, certificate, gateway, namespace, route, service};

const SHOP: &str = "shop.demo.test";
/// Namespace and name.
const SERVICES: [(&str, &str); 3] = [("shop", "shop"), ("shop", "shop-v2"), ("blog", "blog")];
const TIMEOUT: Duration = Duration::from_secs(5);
/// So many answers in a row are those of one Service when it has all the weight.
const IN_A_ROW: usize = 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What was answered by whom while something changed.
type Answers = BTreeMap<String, usize>;

impl Play for Args {
    const NAME: &'static str = "gateway";
    type Scene = Client;

    async fn play(&self, steps: &mut Steps, stage: &mut Stage) -> anyhow::Result<Client> {
        let up_args = ["--container-runtime".to_owned(), "none".to_owned()];
        let client = start_control_plane(steps, stage, &up_args).await?;
        let authority = Authority::new()?;
        let address = bring_up(steps, &client, &authority, self.common.show).await?;
        let outside = TlsClient::new(SocketAddr::new(address, HTTPS), authority.certificate())?;
        publish(steps, &client, &outside, address, self.common.show).await?;
        shift(steps, &client, &outside).await?;
        mistake(steps, &client, &outside).await?;
        renew(steps, &client, &outside, &authority).await?;
        Ok(client)
    }

    fn hints(&self) -> Vec<String> {
        vec![
            "kubectl get gateways,httproutes,gatewayplans -A".to_owned(),
            format!("causeway routes gateway/{GATEWAY} -n {NAMESPACE}"),
            format!("causeway doctor gateway/{GATEWAY} -n {NAMESPACE}"),
        ]
    }

    async fn close(&self, steps: &mut Steps, client: Client) -> anyhow::Result<()> {
        let step = async {
            api(&client, "Gateway", NAMESPACE).delete(GATEWAY, &DeleteParams::default()).await?;
            let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client.clone(), NAMESPACE);
            poll("its pods to be gone", async || {
                Ok(pods.list(&ListParams::default()).await?.items.is_empty().then_some(()))
            })
            .await?;
            Ok(((), vec!["its pods, its Service and the copies of its certificate went with it".to_owned()]))
        };
        steps.run("Delete the Gateway", step).await
    }
}

fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// The address of the Gateway.
async fn bring_up(
    steps: &mut Steps,
    client: &Client,
    authority: &Authority,
    show: bool,
) -> anyhow::Result<IpAddr> {
    let step = async {
        apply_all(client, &[namespace(NAMESPACE), certificate(authority)?], false).await?;
        apply_all(client, &[gateway()], show).await?;
        let gateways = api(client, "Gateway", NAMESPACE);
        let address = poll("the Gateway to be programmed", async || {
            let gateway = gateways.get(GATEWAY).await?;
            let status = &gateway.data["status"];
            let is_programmed = condition(status, "Programmed").is_some_and(|said| said["status"] == "True");
            let address = status["addresses"][0]["value"].as_str().map(str::parse);
            Ok(address.transpose()?.filter(|_| is_programmed))
        })
        .await?;
        let seen = format!(
            "Programmed: http://{address}:{HTTP} and https://{address}:{HTTPS}, a pod of our own engine"
        );
        Ok((address, vec![seen]))
    };
    steps.run("A Gateway with a port for HTTP and one for HTTPS, for the routes of every team", step).await
}

/// A condition in a status or in one of its entries.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

async fn publish(
    steps: &mut Steps,
    client: &Client,
    outside: &TlsClient,
    address: IpAddr,
    show: bool,
) -> anyhow::Result<()> {
    let step = async {
        let mut objects = vec![namespace("shop"), namespace("blog")];
        for (namespace, name) in SERVICES {
            objects.extend(service(namespace, name));
        }
        apply_all(client, &objects, false).await?;
        for (namespace, name) in SERVICES {
            wait_for_endpoint(client, namespace, name).await?;
        }
        let shop = route("shop", "shop", &[("shop", "shop", 100), ("shop", "shop-v2", 0)]);
        apply_all(client, &[shop, route("blog", "blog", &[("blog", "blog", 1)])], show).await?;
        let mut seen = Vec::new();
        for name in ["shop", "blog"] {
            let host = format!("{name}.demo.test");
            let (clear, secure) = poll(&format!("{host} to be served"), async || {
                let clear = ask_clear(SocketAddr::new(address, HTTP), &host).await;
                Ok(clear.ok().zip(outside.ask(&host).await.ok()))
            })
            .await?;
            ensure!(clear == name && secure == name, "{host} is answered by {clear} and {secure}");
            seen.push(format!("http://{host}:{HTTP} and https://{host}:{HTTPS} are answered by {name}"));
        }
        Ok(((), seen))
    };
    steps.run("Two teams, each with a Service and a route in a namespace of its own", step).await
}

async fn ask_clear(gateway: SocketAddr, host: &str) -> anyhow::Result<String> {
    let asked = async { request(&mut TcpStream::connect(gateway).await?, host).await };
    timeout(TIMEOUT, asked).await.with_context(|| format!("{host} did not answer"))?
}

/// Asks for a host again and again, each time on a new connection, until something has come about.
async fn under_load<T>(
    outside: &TlsClient,
    host: &str,
    change: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, Answers)> {
    let mut change = pin!(change);
    let mut answers = Answers::new();
    loop {
        tokio::select! {
            changed = &mut change => return Ok((changed?, answers)),
            answer = outside.ask(host) => {
                *answers.entry(answer.context("a request failed during the change")?).or_default() += 1;
            }
        }
    }
}

fn counted(answers: &Answers) -> String {
    let each: Vec<String> = answers.iter().map(|(name, count)| format!("{count} by {name}")).collect();
    format!("{} requests meanwhile, none failed: {}", answers.values().sum::<usize>(), each.join(", "))
}

async fn shift(steps: &mut Steps, client: &Client, outside: &TlsClient) -> anyhow::Result<()> {
    let step = async {
        let weigh = async |old: u32, new: u32| {
            let route = route("shop", "shop", &[("shop", "shop", old), ("shop", "shop-v2", new)]);
            apply_all(client, &[route], false).await
        };
        let change = async {
            weigh(50, 50).await?;
            poll("shop-v2 to have its half", async || {
                Ok((outside.ask(SHOP).await? == "shop-v2").then_some(()))
            })
            .await?;
            weigh(0, 100).await?;
            let mut in_a_row = 0;
            poll("shop-v2 to have all", async || {
                in_a_row = if outside.ask(SHOP).await? == "shop-v2" { in_a_row + 1 } else { 0 };
                Ok((in_a_row == IN_A_ROW).then_some(()))
            })
            .await
        };
        let ((), answers) = under_load(outside, SHOP, change).await?;
        ensure!(answers.keys().all(|name| name.starts_with("shop")), "answered by {answers:?}");
        Ok(((), vec!["shop-v2 had half of the requests, and then all".to_owned(), counted(&answers)]))
    };
    steps.run("shop moves to shop-v2 by weight while requests keep coming", step).await
}

async fn mistake(steps: &mut Steps, client: &Client, outside: &TlsClient) -> anyhow::Result<()> {
    let step = async {
        let change = async {
            apply_all(client, &[route("blog", "gift", &[("shop", "shop", 1)])], false).await?;
            let routes = api(client, "HTTPRoute", "blog");
            poll("the route to be told", async || {
                let route = routes.get("gift").await?;
                let status = &route.data["status"]["parents"][0];
                let said = condition(status, "ResolvedRefs").filter(|said| said["status"] == "False");
                let text = |field: &str| said.and_then(|said| said[field].as_str()).map(ToOwned::to_owned);
                Ok(text("reason").zip(text("message")))
            })
            .await
        };
        let ((reason, message), answers) = under_load(outside, "blog.demo.test", change).await?;
        ensure!(reason == "RefNotPermitted", "the reason is {reason}: {message}");
        let refused = poll("the route to be refused", async || {
            Ok(outside
                .ask("gift.demo.test")
                .await
                .err()
                .filter(|error| format!("{error:#}").contains(" 500")))
        })
        .await;
        if refused.is_err() {
            bail!("gift.demo.test is served, though nobody allowed it");
        }
        let seen = vec![
            format!("HTTPRoute blog/gift: {reason}: {message}"),
            "gift.demo.test is answered with 500, and all others as before".to_owned(),
            counted(&answers),
        ];
        Ok(((), seen))
    };
    steps.run("Team blog takes a Service of team shop, which nobody allowed", step).await
}

async fn renew(
    steps: &mut Steps,
    client: &Client,
    outside: &TlsClient,
    authority: &Authority,
) -> anyhow::Result<()> {
    let step = async {
        let before = outside.certificate(SHOP).await?;
        let change = async {
            apply_all(client, &[certificate(authority)?], false).await?;
            poll("the new certificate to be shown", async || {
                Ok((outside.certificate(SHOP).await? != before).then_some(()))
            })
            .await
        };
        let ((), answers) = under_load(outside, SHOP, change).await?;
        Ok((
            (),
            vec![
                "new clients are shown the new certificate; no pod was restarted".to_owned(),
                counted(&answers),
            ],
        ))
    };
    steps.run("The certificate is exchanged while requests keep coming", step).await
}
