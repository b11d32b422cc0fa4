//! The demo of hostnames: a team asks for a name and gets certificate, gateway and record; another team can't have it; and what
//! somebody breaks is put right.

use std::io::Cursor;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, ensure};
use causeway_api::conditions::{self, ConditionType};
use causeway_api::{DomainClaim, GatewayHostnameRequest, names};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::cluster::{apply_all, poll, start_control_plane, wait_for_endpoint};
use super::gateway::manifests::{namespace, service};
use super::proxy::tls_client::TlsClient;
use super::stage::Stage;
use super::steps::Steps;
use super::{CommonArgs, Play};
use crate::commands::trust;
use crate::parts::dns_question::{self, Answer};

const NAME: &str = "shop.demo.test";
const ZONE: &str = "demo.test";
const DNS: &str = "hostnames-dns";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Play for Args {
    const NAME: &'static str = "hostname";
    type Scene = Client;

    async fn play(&self, steps: &mut Steps, stage: &mut Stage) -> anyhow::Result<Client> {
        let up_args = ["--container-runtime".to_owned(), "none".to_owned()];
        let client = start_control_plane(steps, stage, &up_args).await?;
        let request = publish(steps, &client, self.common.show).await?;
        route(steps, &client, &request, self.common.show).await?;
        second_team(steps, &client).await?;
        drift(steps, &client).await?;
        Ok(client)
    }

    fn hints(&self) -> Vec<String> {
        vec![
            "causeway hostnames -A".to_owned(),
            "causeway doctor hostname/shop -n shop".to_owned(),
            "causeway trust --file ca.crt".to_owned(),
            "kubectl get ghr,domainclaims,hostnamegrants,gateways -A".to_owned(),
        ]
    }

    async fn close(&self, steps: &mut Steps, client: Client) -> anyhow::Result<()> {
        let step = async {
            requests(&client, "shop").delete("shop", &DeleteParams::default()).await?;
            requests(&client, "rival").delete("shop", &DeleteParams::default()).await?;
            let claims: Api<DomainClaim> = Api::all(client.clone());
            poll("everything to be gone", async || {
                let left = claims.list(&ListParams::default()).await?.items.len()
                    + gateways(&client).list(&ListParams::default()).await?.items.len();
                Ok((left == 0).then_some(()))
            })
            .await?;
            ensure!(resolve(&client).await?.is_none(), "{NAME} is still in DNS");
            Ok((
                (),
                vec!["the record went first, then listener and certificate, and the claim last".to_owned()],
            ))
        };
        steps.run("Delete the requests", step).await
    }
}

fn requests(client: &Client, namespace: &str) -> Api<GatewayHostnameRequest> {
    Api::namespaced(client.clone(), namespace)
}

fn gateways(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
    Api::namespaced_with(client.clone(), names::EDGE_NAMESPACE, &ApiResource::from_gvk(&kind))
}

fn request(namespace: &str) -> Value {
    json!({
        "apiVersion": names::API_VERSION, "kind": "GatewayHostnameRequest",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"zoneId": ZONE, "hostname": NAME},
    })
}

/// What our own DNS server says of the name; none if there is none.
async fn resolve(client: &Client) -> anyhow::Result<Option<IpAddr>> {
    let services: Api<Service> = Api::namespaced(client.clone(), names::EDGE_NAMESPACE);
    let spec = services.get(DNS).await?.spec.context("the Service has no spec")?;
    let address: IpAddr = spec.cluster_ip.context("the Service has no address")?.parse()?;
    let port = spec.ports.and_then(|ports| ports.first().map(|port| port.port)).context("it has no port")?;
    let server = SocketAddr::new(address, u16::try_from(port)?);
    Ok(match dns_question::ask(server, NAME, false).await? {
        Answer::Addresses(addresses) => addresses.first().copied(),
        Answer::Refused(_) | Answer::Silence => None,
    })
}

async fn publish(steps: &mut Steps, client: &Client, show: bool) -> anyhow::Result<GatewayHostnameRequest> {
    let step = async {
        apply_all(client, &[namespace("shop"), namespace("rival")], false).await?;
        apply_all(client, &service("shop", "shop"), false).await?;
        apply_all(client, &[request("shop")], show).await?;
        let mut seen = Vec::new();
        let ready = poll("the request to be Ready", async || {
            let request = requests(client, "shop").get("shop").await?;
            let all = request.status.clone().unwrap_or_default().conditions;
            for condition in all.iter().filter(|condition| condition.status == "True") {
                let line = format!("{}: {}", condition.type_, condition.message);
                if !seen.contains(&line) {
                    seen.push(line);
                }
            }
            let is_ready =
                conditions::find(&all, ConditionType::Ready).is_some_and(|one| one.status == "True");
            Ok(is_ready.then_some(request))
        })
        .await?;
        let address = resolve(client).await?.context("the name is not in DNS")?;
        seen.push(format!("our own DNS server leads {NAME} to {address}"));
        Ok((ready, seen))
    };
    steps.run(&format!("Team shop asks for {NAME}"), step).await
}

async fn route(
    steps: &mut Steps,
    client: &Client,
    request: &GatewayHostnameRequest,
    show: bool,
) -> anyhow::Result<()> {
    let step = async {
        let status = request.status.clone().unwrap_or_default();
        let gateway = status.assigned_gateway.context("no gateway is assigned")?;
        apply_all(client, &[http_route("shop", &gateway)], show).await?;
        wait_for_endpoint(client, "shop", "shop").await?;
        let (at, outside) = visitor(client, &gateway).await?;
        let answered =
            poll("the route to lead to the service", async || Ok(outside.ask(NAME).await.ok())).await?;
        ensure!(answered == "shop", "{answered} answered");
        Ok(((), vec![format!("https://{NAME} ({at}) is answered by shop, and its certificate is good")]))
    };
    steps.run("An HTTPRoute, and a client that trusts our own authority", step).await
}

/// A client who trusts our own authority and asks where our own DNS server leads.
async fn visitor(client: &Client, gateway: &str) -> anyhow::Result<(SocketAddr, TlsClient)> {
    let authority = trust::certificate(client, names::EDGE_NAMESPACE).await?;
    let authority =
        CertificateDer::pem_reader_iter(Cursor::new(authority)).next().context("no certificate")??;
    let address = resolve(client).await?.context("the name is not in DNS")?;
    let listeners = gateways(client).get(gateway).await?.data["spec"]["listeners"].clone();
    let port = listeners.as_array().into_iter().flatten().find(|one| one["protocol"] == "HTTPS");
    let port = port.and_then(|one| one["port"].as_u64()).context("the gateway has no port for TLS")?;
    let at = SocketAddr::new(address, u16::try_from(port)?);
    Ok((at, TlsClient::new(at, authority)?))
}

fn http_route(namespace: &str, gateway: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": gateway, "namespace": names::EDGE_NAMESPACE}],
            "hostnames": [NAME],
            "rules": [{"backendRefs": [{"name": "shop", "port": 80}]}],
        },
    })
}

async fn second_team(steps: &mut Steps, client: &Client) -> anyhow::Result<()> {
    let step = async {
        apply_all(client, &[request("rival")], false).await?;
        let claimed = poll("the request to be refused", async || {
            let all = requests(client, "rival").get("shop").await?.status.unwrap_or_default().conditions;
            let found = conditions::find(&all, ConditionType::Claimed).cloned();
            Ok(found.filter(|condition| condition.status == "False"))
        })
        .await?;
        let mut seen = vec![format!("{}: {}", claimed.reason, claimed.message)];
        let refused = apply_all(client, &[http_route("rival", "gw-01")], false).await.err();
        let refused = refused.context("the route of the other team was accepted")?;
        seen.push(format!("its route is refused: {:#}", refused.root_cause()));
        Ok(((), seen))
    };
    steps.run("Team rival asks for the same name, and tries to route it", step).await
}

async fn drift(steps: &mut Steps, client: &Client) -> anyhow::Result<()> {
    let step = async {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), names::EDGE_NAMESPACE);
        let patch = json!({"data": {format!("zone.{ZONE}"): null}});
        maps.patch(DNS, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        let kept = format!("zone.{ZONE}");
        poll("the record to be back", async || {
            let data = maps.get(DNS).await?.data.unwrap_or_default();
            Ok(data.get(&kept).filter(|text| text.contains(NAME)).map(drop))
        })
        .await?;
        let before = gateways(client).get("gw-01").await?.metadata.uid;
        gateways(client).delete("gw-01", &DeleteParams::default()).await?;
        poll("the gateway to be back", async || {
            let gateway = gateways(client).get_opt("gw-01").await?;
            if gateway.is_none_or(|gateway| gateway.metadata.uid == before) {
                return Ok(None);
            }
            // The address may be another one: whoever asks anew finds it.
            let Ok((_, outside)) = visitor(client, "gw-01").await else { return Ok(None) };
            Ok(outside.ask(NAME).await.ok())
        })
        .await?;
        let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client.clone(), "shop");
        let told = poll("it to be told", async || {
            let events = events.list(&ListParams::default()).await?.items;
            Ok(events.into_iter().find(|event| event.reason.as_deref() == Some("DriftDetected")))
        })
        .await?;
        Ok((
            (),
            vec![
                format!("the record is back: {}", told.note.unwrap_or_default()),
                "the gateway is back under its name, and answers".to_owned(),
            ],
        ))
    };
    steps.run("Somebody removes the record, and then the gateway", step).await
}
