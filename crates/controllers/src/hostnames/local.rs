//! Our own DNS server for hostnames: a pod beside the gateways that serves the zones of a ConfigMap, and the shelf that keeps them.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use causeway_api::names;
use causeway_base::lock::lock;
use causeway_ir::{
    Name as PlanName, Pattern, Period,
    dns::{DnsPlan, Record, View, Zone as PlanZone},
};
use causeway_providers::{
    Error, Name,
    dns::{Kind, Progress, Records},
    local::{Shelf, Stored},
};
use causeway_translate::hostname::listeners::COMPONENT;
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{net::UdpSocket, time::timeout};

use super::FIELD_MANAGER;
use crate::framework::{
    children::{ChildKind, dynamic_api},
    kinds::{DEPLOYMENT, SERVICE},
};

/// Name of the server and of all that belongs to it.
pub(super) const SERVER: &str = "hostnames-dns";
/// The entry of the ConfigMap that the server reads.
const PLAN: &str = "plan.json";
/// What the entries with zones begin with.
const ZONE: &str = "zone.";
/// Of the server's pods: the version of a zone that they were told of.
const ZONES: &str = "causeway.dev/zones";
/// Where the server listens, in its pod.
const POD_PORT: u16 = 8053;
/// The name in each zone that tells which version of it is served.
const VERSION: &str = "_causeway-version";
/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Zones in a ConfigMap.
pub(super) struct ConfigMapShelf {
    client: Client,
    namespace: String,
    image: String,
    port: u16,
    /// The version that the server's pods were told of last.
    nudged: Mutex<Option<String>>,
    /// Whether it was seen to that the server is of this operator's version.
    is_made: AtomicBool,
}

impl ConfigMapShelf {
    pub(super) fn new(client: Client, namespace: &str, image: &str, port: u16) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            image: image.to_owned(),
            port,
            nudged: Mutex::default(),
            is_made: AtomicBool::new(false),
        }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn map(&self) -> Result<Option<ConfigMap>, Error> {
        self.maps().get_opt(SERVER).await.map_err(unavailable)
    }

    async fn write(&self, domain: &Name, stored: &Stored, version: &str) -> Result<bool, Error> {
        let found = self.map().await?;
        let mut data = found.and_then(|map| map.data).unwrap_or_default();
        data.insert(format!("{ZONE}{domain}"), serde_json::to_string(stored).map_err(unavailable)?);
        let zones = zones(&data);
        let plan = serde_json::to_string(&plan(&zones)).map_err(unavailable)?;
        let body = json!({
            "metadata": {
                "name": SERVER,
                "labels": {names::LABEL_MANAGED_BY: names::MANAGED_BY, names::LABEL_COMPONENT: COMPONENT},
            },
            "data": {format!("{ZONE}{domain}"): data[&format!("{ZONE}{domain}")], PLAN: plan},
        });
        let result = if version.is_empty() {
            let map: ConfigMap = serde_json::from_value(body).map_err(unavailable)?;
            let params =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            self.maps().create(&params, &map).await
        } else {
            let mut body = body;
            body["metadata"]["resourceVersion"] = json!(version);
            let params =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            self.maps().patch(SERVER, &params, &Patch::Merge(&body)).await
        };
        match result {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Whether the server serves just this.
    async fn is_served(&self, domain: &Name, stored: &Stored) -> Result<Progress, Error> {
        let service = Api::<Service>::namespaced(self.client.clone(), &self.namespace);
        let service = service.get_opt(SERVER).await.map_err(unavailable)?;
        let address = service.and_then(|service| service.spec?.cluster_ip?.parse::<IpAddr>().ok());
        let Some(address) = address else {
            self.make_server().await?;
            return Ok(Progress::Pending { waits_for: "our own DNS server is being started".to_owned() });
        };
        let name = format!("{VERSION}.{domain}");
        match ask(SocketAddr::new(address, self.port), &name).await {
            Some(answer) if answer == version(stored) => Ok(Progress::Settled),
            Some(_) => {
                // One of an earlier version may not understand what it is told now.
                if !self.is_made.load(Ordering::Relaxed) {
                    self.make_server().await?;
                }
                self.nudge(&version(stored).to_string()).await?;
                Ok(Progress::Pending { waits_for: "our own DNS server has an older version".to_owned() })
            }
            None => {
                // Somebody may have removed it.
                self.make_server().await?;
                Ok(Progress::Pending { waits_for: "our own DNS server does not answer yet".to_owned() })
            }
        }
    }

    /// A kubelet brings a changed ConfigMap to its pods only when it looks at them again, which may take more than a minute: a pod
    /// that is changed itself is looked at now.
    async fn nudge(&self, version: &str) -> Result<(), Error> {
        if lock(&self.nudged).as_deref() == Some(version) {
            return Ok(());
        }
        let pods = Api::<Pod>::namespaced(self.client.clone(), &self.namespace);
        let ours = ListParams::default().labels(&format!("{}={SERVER}", names::LABEL_APP));
        for pod in pods.list_metadata(&ours).await.map_err(unavailable)? {
            let patch = json!({"metadata": {"annotations": {ZONES: version}}});
            match pods.patch_metadata(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(unavailable(error)),
            }
        }
        *lock(&self.nudged) = Some(version.to_owned());
        Ok(())
    }

    async fn make_server(&self) -> Result<(), Error> {
        for (kind, object) in [(SERVICE, self.service()), (DEPLOYMENT, self.deployment())] {
            self.apply(kind, &object).await?;
        }
        self.is_made.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn apply(&self, kind: ChildKind, object: &Value) -> Result<(), Error> {
        let api: Api<DynamicObject> = dynamic_api(self.client.clone(), &self.namespace, &kind.resource());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(SERVER, &params, &Patch::Apply(object)).await.map(drop).map_err(unavailable)
    }

    fn metadata(&self) -> Value {
        json!({
            "name": SERVER, "namespace": self.namespace,
            "labels": {
                names::LABEL_APP: SERVER,
                names::LABEL_MANAGED_BY: names::MANAGED_BY,
                names::LABEL_COMPONENT: COMPONENT,
            },
        })
    }

    fn service(&self) -> Value {
        let port = |protocol: &str| {
            json!({
                "name": protocol.to_ascii_lowercase(), "protocol": protocol,
                "port": self.port, "targetPort": POD_PORT,
            })
        };
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": self.metadata(),
            "spec": {"selector": {names::LABEL_APP: SERVER}, "ports": [port("UDP"), port("TCP")]},
        })
    }

    fn deployment(&self) -> Value {
        let listen = format!("$(POD_IP):{POD_PORT}");
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {names::LABEL_APP: SERVER}},
                "template": {
                    "metadata": {"labels": {names::LABEL_APP: SERVER}},
                    "spec": {
                        "automountServiceAccountToken": false,
                        "enableServiceLinks": false,
                        "securityContext": {
                            "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "volumes": [{"name": "zones", "configMap": {"name": SERVER}}],
                        "containers": [{
                            "name": "dns",
                            "image": self.image,
                            "args": ["dns", "--config", format!("/etc/causeway/dns/{PLAN}"), "--bind", listen],
                            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                            "ports": [
                                {"name": "dns-udp", "containerPort": POD_PORT, "protocol": "UDP"},
                                {"name": "dns-tcp", "containerPort": POD_PORT, "protocol": "TCP"},
                            ],
                            "volumeMounts": [{"name": "zones", "mountPath": "/etc/causeway/dns", "readOnly": true}],
                            "readinessProbe": {"tcpSocket": {"port": POD_PORT}, "periodSeconds": 1},
                            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}},
                            "securityContext": {
                                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                "capabilities": {"drop": ["ALL"]},
                            },
                        }],
                    },
                },
            },
        })
    }
}

impl Shelf for ConfigMapShelf {
    fn load<'a>(&'a self, domain: &'a Name) -> BoxFuture<'a, Result<(Stored, String), Error>> {
        async move {
            let Some(map) = self.map().await? else { return Ok((Stored::default(), String::new())) };
            let version = map.resource_version().unwrap_or_default();
            let text = map.data.as_ref().and_then(|data| data.get(&format!("{ZONE}{domain}")));
            // What somebody broke is made anew from what is asked for.
            let stored = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            Ok((stored, version))
        }
        .boxed()
    }

    fn save<'a>(
        &'a self,
        domain: &'a Name,
        stored: &'a Stored,
        version: &'a str,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        self.write(domain, stored, version).boxed()
    }

    fn served<'a>(&'a self, domain: &'a Name, stored: &'a Stored) -> BoxFuture<'a, Result<Progress, Error>> {
        self.is_served(domain, stored).boxed()
    }
}

/// Whether nothing is kept in the ConfigMap. What can't be read is something.
pub(super) fn is_empty(map: &DynamicObject) -> bool {
    let data = map.data["data"].as_object();
    let mut zones = data.into_iter().flatten().filter(|(key, _)| key.starts_with(ZONE));
    zones.all(|(_, text)| {
        let stored = text.as_str().and_then(|text| serde_json::from_str::<Stored>(text).ok());
        stored.is_some_and(|stored| stored.names.is_empty())
    })
}

/// The zones of the ConfigMap's entries.
fn zones(data: &BTreeMap<String, String>) -> BTreeMap<String, Stored> {
    let entries = data.iter().filter_map(|(key, text)| {
        Some((key.strip_prefix(ZONE)?.to_owned(), serde_json::from_str(text).ok()?))
    });
    entries.collect()
}

/// How long answers may be kept that are about the server itself.
const TTL: Duration = Duration::from_secs(30);

/// The plan of the server: every zone, with the version of it as one more address.
fn plan(zones: &BTreeMap<String, Stored>) -> DnsPlan {
    let zones = zones.iter().filter_map(|(domain, stored)| {
        let mut records: Vec<Record> = stored
            .names
            .iter()
            .filter_map(|(name, found)| {
                let addresses = addresses(&found.records);
                let name = Pattern::parse(name.as_str()).ok().filter(|_| !addresses.is_empty())?;
                // Every name as long as its owner says, whatever his neighbours say.
                let ttl = found.records.values().filter_map(ttl).min();
                let ttl = ttl.and_then(|ttl| Period::new(Duration::from_secs(u64::from(ttl))));
                Some(Record { name, addresses, reverse: false, ttl })
            })
            .collect();
        let own = Pattern::parse(&format!("{VERSION}.{domain}")).ok()?;
        let served = vec![version(stored).into()];
        records.push(Record { name: own, addresses: served, reverse: false, ttl: None });
        Some(PlanZone {
            domain: PlanName::parse(domain).ok()?,
            ttl: TTL,
            negative_ttl: Duration::from_secs(5),
            name_server: None,
            open: false,
            records,
        })
    });
    DnsPlan {
        binds: vec![SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), POD_PORT)],
        views: vec![View {
            name: PlanName::parse("everybody").expect("a word is a name"),
            sources: Vec::new(),
            recursion: Some(Vec::new()),
            reverse: Vec::new(),
            zones: zones.collect(),
        }],
        ..DnsPlan::default()
    }
}

fn addresses(records: &BTreeMap<Kind, Records>) -> Vec<IpAddr> {
    let all = records.values().flat_map(|records| -> Vec<IpAddr> {
        match records {
            Records::A(addresses, _) => addresses.iter().copied().map(IpAddr::V4).collect(),
            Records::Aaaa(addresses, _) => addresses.iter().copied().map(IpAddr::V6).collect(),
            _ => Vec::new(),
        }
    });
    all.collect()
}

fn ttl(records: &Records) -> Option<u32> {
    match records {
        Records::A(_, ttl) | Records::Aaaa(_, ttl) => Some(*ttl),
        _ => None,
    }
}

/// A digest of a zone as an address, so that one question tells whether all of it is served.
fn version(stored: &Stored) -> Ipv6Addr {
    let text = serde_json::to_string(stored).unwrap_or_default();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut octets = [0xfd; 16];
    for (octet, byte) in octets[1..].iter_mut().zip(digest.as_ref()) {
        *octet = *byte;
    }
    Ipv6Addr::from(octets)
}

/// Asks a server for the IPv6 address of a name.
async fn ask(server: SocketAddr, name: &str) -> Option<Ipv6Addr> {
    let mut question = vec![0x43, 0x57, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(u8::try_from(label.len()).ok()?);
        question.extend(label.as_bytes());
    }
    question.extend([0, 0, 28, 0, 1]);
    let asking = async {
        let any: SocketAddr =
            if server.is_ipv4() { "0.0.0.0:0".parse().ok()? } else { "[::]:0".parse().ok()? };
        let socket = UdpSocket::bind(any).await.ok()?;
        socket.connect(server).await.ok()?;
        socket.send(&question).await.ok()?;
        let mut answer = [0; 1232];
        let length = socket.recv(&mut answer).await.ok()?;
        address(answer.get(..length)?, question.len())
    };
    timeout(PATIENCE, asking).await.ok()?
}

/// The first AAAA after the question, which is as long as it was asked.
fn address(answer: &[u8], question: usize) -> Option<Ipv6Addr> {
    let count = u16::from_be_bytes(answer.get(6..8)?.try_into().ok()?);
    let rest = answer.get(question..)?;
    // A pointer to the name, the type, the class, the time, and the length.
    let (kind, length) = (rest.get(2..4)?, rest.get(10..12)?);
    if count == 0 || answer.first() != Some(&0x43) || kind != [0, 28] || length != [0, 16] {
        return None;
    }
    let octets: [u8; 16] = rest.get(12..28)?.try_into().ok()?;
    Some(octets.into())
}

fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unavailable {
        at: "the zones of our own DNS server".to_owned(),
        source: std::sync::Arc::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_kept_as_long_as_its_owner_says() {
        let found = |ttl: u32| causeway_providers::dns::Found {
            records: [(Kind::A, Records::A(["192.0.2.1".parse().unwrap()].into(), ttl))].into(),
            ..causeway_providers::dns::Found::default()
        };
        let mut stored = Stored::default();
        for (name, ttl) in [("a.example.test", 5), ("b.example.test", 3600)] {
            stored.names.insert(Name::parse(name).unwrap(), found(ttl));
        }
        let plan = plan(&[("example.test".to_owned(), stored)].into());
        assert_eq!(plan.validate(), []);
        let ttls: Vec<Option<u64>> =
            plan.views[0].zones[0].records.iter().map(|record| Some(record.ttl?.get().as_secs())).collect();
        assert_eq!(ttls, [Some(5), Some(3600), None]);
    }
}
