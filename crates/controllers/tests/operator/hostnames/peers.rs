//! Zones with real peers: BIND and Knot by dynamic updates, Pebble by ACME, and moto for AWS, whose load balancers the test plays.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use causeway_api::{HostnameZone, names};
use causeway_controllers::operator::Config;
use causeway_testkit::{
    moto::Moto,
    name_server::{KEY, SECRET},
    pebble::Pebble,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::scene::{EDGE, Scene};
use crate::cluster::Running;

pub const BALANCER: &str = "k8s-edge-gw01-1234.eu-central-1.elb.amazonaws.com";

impl Scene {
    /// All controllers, with the issuers and providers that everybody has.
    pub fn usual_operator(&self, edit: impl FnOnce(&mut Config)) -> Running {
        self.cluster.configured(|config| {
            config.hostnames.sweep = Duration::from_secs(1);
            edit(config);
        })
    }

    /// A Secret of the operator's namespace.
    pub async fn credentials(&self, name: &str, entries: Value) {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": names::NAMESPACE}})).unwrap();
        let _ = Api::all(self.client()).create(&PostParams::default(), &namespace).await;
        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": name}, "stringData": entries})).unwrap();
        let secrets = Api::<Secret>::namespaced(self.client(), names::NAMESPACE);
        let params = PatchParams::apply("test").force();
        secrets.patch(name, &params, &Patch::Apply(&secret)).await.unwrap();
    }

    pub fn zones(&self) -> Api<HostnameZone> {
        Api::all(self.client())
    }

    pub async fn zone(&self, name: &str, spec: Value) {
        let zone: HostnameZone = serde_json::from_value(json!({
            "apiVersion": names::API_VERSION, "kind": "HostnameZone", "metadata": {"name": name}, "spec": spec,
        }))
        .unwrap();
        self.zones().create(&PostParams::default(), &zone).await.unwrap();
    }

    /// The zone `lab.test` of a name server, with certificates of Pebble.
    pub async fn acme_zone(&self, server: SocketAddr, pebble: &Pebble, directory: &str, challenge: &str) {
        self.credentials("tsig", json!({"keyName": KEY, "algorithm": "hmac-sha256", "secret": SECRET})).await;
        self.credentials("pebble", json!({"ca.crt": pebble.certificate()})).await;
        let certificates = json!({
            "issuer": "acme", "directory": directory, "credentialsSecret": "pebble",
            "email": "hostmaster@lab.test", "challenge": challenge,
        });
        self.zone(
            "lab",
            json!({
                "zoneId": "lab.test", "domain": "lab.test", "certificates": certificates,
                "dns": {"provider": "rfc2136", "server": server.to_string(), "credentialsSecret": "tsig"},
            }),
        )
        .await;
    }

    /// A zone of Route 53 with certificates of ACM, for load balancers of AWS; its id.
    pub async fn aws_zone(&self, moto: &Moto, endpoint: &str, domain: &str, key: &str) -> String {
        let id = hosted_zone(moto, domain);
        // A key of its own has a pace of its own.
        self.credentials("aws", json!({"accessKeyId": key, "secretAccessKey": "test"})).await;
        let place = json!({"credentialsSecret": "aws", "region": "eu-central-1", "endpoint": endpoint});
        let with = |field: &str| {
            let mut place = place.clone();
            place[field] = json!("aws");
            place
        };
        self.zone(
            "cloud",
            json!({
                "zoneId": id, "domain": domain, "gatewayClass": "aws-alb",
                "dns": with("provider"), "certificates": with("issuer"),
            }),
        )
        .await;
        id
    }

    /// The definition of what the AWS Load Balancer Controller is told by, and its class.
    pub async fn aws_classes(&self) {
        let definitions = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        ));
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "loadbalancerconfigurations.gateway.k8s.aws"},
            "spec": {
                "group": "gateway.k8s.aws", "scope": "Namespaced",
                "names": {
                    "kind": "LoadBalancerConfiguration", "plural": "loadbalancerconfigurations",
                    "singular": "loadbalancerconfiguration", "listKind": "LoadBalancerConfigurationList",
                },
                "versions": [{
                    "name": "v1beta1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }}},
                }],
            },
        });
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "aws-alb"},
            "spec": {"controllerName": "gateway.k8s.aws/alb"},
        });
        let classes =
            ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "GatewayClass"));
        for (resource, object) in [(definitions, definition), (classes, class)] {
            let api = Api::<DynamicObject>::all_with(self.client(), &resource);
            let object = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
        }
    }

    pub fn configurations(&self) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "gateway.k8s.aws",
            "v1beta1",
            "LoadBalancerConfiguration",
        ));
        Api::namespaced_with(self.client(), EDGE, &resource)
    }
}

/// Plays the AWS Load Balancer Controller: every Gateway of its class has a load balancer at once.
pub async fn balance(client: Client) {
    balance_as(client, "aws-alb", "Hostname", &[BALANCER]).await;
}

/// Plays the controller of a class whose Gateways have these addresses at once.
pub async fn balance_as(client: Client, class: &str, kind: &str, addresses: &[&str]) {
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway"));
    let gateways = Api::<DynamicObject>::namespaced_with(client, EDGE, &resource);
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(list) = gateways.list(&ListParams::default()).await else { continue };
        for gateway in list.items {
            let generation = gateway.metadata.generation;
            let is_said = gateway.data["status"]["conditions"].as_array().is_some_and(|all| {
                all.iter().any(|one| {
                    one["observedGeneration"] == json!(generation)
                        && one["type"] == "Programmed"
                        && one["status"] == "True"
                })
            });
            if gateway.data["spec"]["gatewayClassName"] != class || is_said {
                continue;
            }
            let condition = |kind: &str| {
                json!({
                    "type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": generation,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            };
            let listeners: Vec<Value> = gateway.data["spec"]["listeners"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|listener| {
                    json!({
                        "name": listener["name"], "attachedRoutes": 0, "supportedKinds": [],
                        "conditions": [condition("Accepted"), condition("Programmed"), condition("ResolvedRefs")],
                    })
                })
                .collect();
            let addresses: Vec<Value> =
                addresses.iter().map(|address| json!({"type": kind, "value": address})).collect();
            let status = json!({"status": {
                "addresses": addresses,
                "conditions": [condition("Accepted"), condition("Programmed")],
                "listeners": listeners,
            }});
            let _ = gateways
                .patch_status(&gateway.name_any(), &PatchParams::default(), &Patch::Merge(&status))
                .await;
        }
    }
}

/// A zone of moto; its id.
pub fn hosted_zone(moto: &Moto, domain: &str) -> String {
    let id = moto.python(&format!(
        "print(route53.create_hosted_zone(Name='{domain}', CallerReference='{domain}')['HostedZone']['Id'])"
    ));
    id.trim_start_matches("/hostedzone/").to_owned()
}

/// How many records a zone of moto has besides its own, and how many certificates there are for names in a domain.
pub fn counted(moto: &Moto, zone: &str, domain: &str) -> (usize, usize) {
    let said = moto.python(&format!(
        "records = route53.list_resource_record_sets(HostedZoneId='{zone}')['ResourceRecordSets']\n\
         certificates = [c for c in acm.list_certificates()['CertificateSummaryList'] if c['DomainName'].endswith('{domain}')]\n\
         print(len(records) - 2, len(certificates))"
    ));
    let (records, certificates) = said.split_once(' ').unwrap();
    (records.parse().unwrap(), certificates.parse().unwrap())
}

/// Stands before a peer and counts what it answers. The answer by which it blows is not passed on: the peer has done what it was
/// asked for, and nobody hears of it.
#[derive(Clone)]
pub struct Toll {
    pub address: SocketAddr,
    pub blown: Arc<Notify>,
    /// How many answers there were, and the one by which it blows; 0 for none.
    counted: Arc<std::sync::Mutex<(usize, usize)>>,
}

impl Toll {
    pub async fn before(peer: SocketAddr) -> Self {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let toll =
            Self { address: listener.local_addr().unwrap(), blown: Arc::default(), counted: Arc::default() };
        let passing = toll.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(passing.clone().pass(client, peer));
            }
        });
        toll
    }

    /// Counts anew.
    pub fn arm(&self, blows_at: usize) {
        *self.counted.lock().unwrap() = (0, blows_at);
    }

    async fn pass(self, client: TcpStream, peer: SocketAddr) {
        let Ok(peer) = TcpStream::connect(peer).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_peer, mut to_peer) = peer.into_split();
        let there = async { tokio::io::copy(&mut from_client, &mut to_peer).await.map(drop) };
        let back = async {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let length = from_peer.read(&mut buffer).await?;
                if length == 0 {
                    return Ok(());
                }
                let blows = {
                    let mut counted = self.counted.lock().unwrap();
                    counted.0 += 1;
                    counted.0 == counted.1
                };
                if blows {
                    self.blown.notify_one();
                    return Err(std::io::ErrorKind::ConnectionAborted.into());
                }
                to_client.write_all(&buffer[..length]).await?;
            }
        };
        tokio::select! {
            _ = there => {}
            result = back => { let _: std::io::Result<()> = result; }
        }
    }
}
