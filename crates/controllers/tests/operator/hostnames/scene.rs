//! A cluster with an operator, issuers and DNS that the test can look into, and players of the gateways' pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use causeway_api::{
    DomainClaim, GatewayHostnameRequest, GatewayPlan, HostnameGrant,
    conditions::{self, ConditionType},
    names,
};
use causeway_controllers::{
    hostnames::{Suppliers, SuppliersRef},
    operator::Config,
};
use causeway_providers::{
    Error, Name,
    certificate::{self, CertificateIssuer, Look, Renewal},
    dns::{Change, DnsProvider, Found, Plan, Progress, Zone as ProviderZone},
    local::{Authority, Dns, Issuer, Shelf, Stored},
};
use causeway_testkit::eventually;
use causeway_translate::hostname::Zone;
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::{
    api::core::v1::{Namespace, Pod, Secret},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::cluster::{Cluster, Running};

pub const EDGE: &str = names::EDGE_NAMESPACE;

/// Zones in memory, which outlive operators.
#[derive(Clone, Default)]
pub struct Memory(pub Arc<Mutex<BTreeMap<Name, (Stored, u64)>>>);

impl Memory {
    /// The names of all zones that have something.
    pub fn names(&self) -> BTreeSet<String> {
        let zones = self.0.lock().unwrap();
        zones
            .values()
            .flat_map(|(stored, _)| stored.names.keys().map(ToString::to_string).collect::<Vec<_>>())
            .collect()
    }

    /// What a name has.
    pub fn found(&self, name: &str) -> Option<Found> {
        let (zones, name) = (self.0.lock().unwrap(), Name::parse(name).unwrap());
        zones.values().find_map(|(stored, _)| stored.names.get(&name).cloned())
    }

    /// Somebody removes a name.
    pub fn remove(&self, name: &str) {
        let name = Name::parse(name).unwrap();
        for (stored, version) in self.0.lock().unwrap().values_mut() {
            stored.names.remove(&name);
            *version += 1;
        }
    }
}

impl Shelf for Memory {
    fn load<'a>(&'a self, domain: &'a Name) -> BoxFuture<'a, Result<(Stored, String), Error>> {
        let found = self.0.lock().unwrap().get(domain).cloned().unwrap_or_default();
        std::future::ready(Ok((found.0, found.1.to_string()))).boxed()
    }

    fn save<'a>(
        &'a self,
        domain: &'a Name,
        stored: &'a Stored,
        version: &'a str,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let mut zones = self.0.lock().unwrap();
        let entry = zones.entry(domain.clone()).or_default();
        let is_so = entry.1.to_string() == version;
        if is_so {
            *entry = (stored.clone(), entry.1 + 1);
        }
        std::future::ready(Ok(is_so)).boxed()
    }

    fn served<'a>(&'a self, _: &'a Name, _: &'a Stored) -> BoxFuture<'a, Result<Progress, Error>> {
        std::future::ready(Ok(Progress::Settled)).boxed()
    }
}

/// Counts calls, and stops everything after one of them.
#[derive(Clone, Default)]
pub struct Fuse {
    pub calls: Arc<AtomicUsize>,
    /// The call after which nothing happens any more; 0 for never.
    pub blows_after: usize,
    pub blown: Arc<Notify>,
    /// What everything waits for then, to go on; nothing ever if it is not there.
    pub go: Option<Arc<Notify>>,
}

impl Fuse {
    pub async fn through<T>(&self, call: impl Future<Output = T>) -> T {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.blows_after != 0 && number > self.blows_after && self.go.is_none() {
            std::future::pending::<()>().await;
        }
        let done = call.await;
        if number == self.blows_after {
            self.blown.notify_one();
            match &self.go {
                Some(go) => go.notified().await,
                None => std::future::pending::<()>().await,
            }
        }
        done
    }
}

/// Serial numbers of certificates, by the id and the number of their order.
type Signed = BTreeMap<(String, u32), BTreeSet<String>>;

/// What the operator is supplied with in tests; clones share all of it.
#[derive(Clone)]
pub struct Supply {
    pub zones: Memory,
    pub authority: String,
    pub lifetime: Duration,
    pub fuse: Fuse,
    /// Certificates that were signed, by order: none is asked for twice.
    pub signed: Arc<Mutex<Signed>>,
    pub applies: Arc<AtomicUsize>,
    /// What the issuer says to whatever it is asked, if it does not do it.
    pub issuer_refuses: Arc<Mutex<Option<Error>>>,
    /// Whether the issuer will never issue what it is asked for.
    pub issuer_fails: Arc<AtomicBool>,
    /// Whether no issuer can be had.
    pub issuers_missing: Arc<AtomicBool>,
    /// What DNS says to whatever it is asked for, if it does not do it.
    pub dns_refuses: Arc<Mutex<Option<Error>>>,
}

impl Supply {
    pub fn new() -> Self {
        let authority = Authority::generate(&[]).unwrap();
        Self {
            zones: Memory::default(),
            authority: authority.to_pem().expose().to_owned(),
            lifetime: Issuer::LIFETIME,
            fuse: Fuse::default(),
            signed: Arc::default(),
            applies: Arc::default(),
            issuer_refuses: Arc::default(),
            issuer_fails: Arc::default(),
            issuers_missing: Arc::default(),
            dns_refuses: Arc::default(),
        }
    }
}

impl Suppliers for Supply {
    fn dns<'a>(&'a self, _: &'a Zone) -> BoxFuture<'a, Result<Arc<dyn DnsProvider>, Error>> {
        let provider = Watched { inner: Dns::new("test".into(), self.zones.clone()), supply: self.clone() };
        std::future::ready(Ok(Arc::new(provider) as Arc<dyn DnsProvider>)).boxed()
    }

    fn issuer<'a>(&'a self, _: &'a Zone) -> BoxFuture<'a, Result<Arc<dyn CertificateIssuer>, Error>> {
        if self.issuers_missing.load(Ordering::SeqCst) {
            let error = Error::Unavailable { at: "the issuer".into(), source: Arc::new(std::fmt::Error) };
            return std::future::ready(Err(error)).boxed();
        }
        let authority =
            Authority::from_pem(&causeway_providers::Secret::new(self.authority.clone())).unwrap();
        let issuer = Watched { inner: Issuer::new(authority, self.lifetime), supply: self.clone() };
        std::future::ready(Ok(Arc::new(issuer) as Arc<dyn CertificateIssuer>)).boxed()
    }
}

struct Watched<T> {
    inner: T,
    supply: Supply,
}

impl DnsProvider for Watched<Dns<Memory>> {
    fn zone<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ProviderZone, Error>> {
        self.supply.fuse.through(self.inner.zone(id)).boxed()
    }

    fn observe<'a>(
        &'a self,
        zone: &'a ProviderZone,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<BTreeMap<Name, Found>, Error>> {
        self.supply.fuse.through(self.inner.observe(zone, names)).boxed()
    }

    fn apply<'a>(
        &'a self,
        zone: &'a ProviderZone,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Vec<Result<Progress, Error>>> {
        self.supply.applies.fetch_add(1, Ordering::SeqCst);
        if let Some(error) = self.supply.dns_refuses.lock().unwrap().clone() {
            return std::future::ready(changes.iter().map(|_| Err(error.clone())).collect()).boxed();
        }
        self.supply.fuse.through(self.inner.apply(zone, changes)).boxed()
    }

    fn plan<'a>(
        &'a self,
        zone: &'a ProviderZone,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Result<Plan, Error>> {
        self.supply.fuse.through(self.inner.plan(zone, changes)).boxed()
    }
}

impl CertificateIssuer for Watched<Issuer> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn wants_key(&self) -> bool {
        self.inner.wants_key()
    }

    fn request<'a>(&'a self, order: &'a certificate::Order) -> BoxFuture<'a, Result<String, Error>> {
        if let Some(error) = self.supply.issuer_refuses.lock().unwrap().clone() {
            return std::future::ready(Err(error)).boxed();
        }
        self.supply.fuse.through(self.inner.request(order)).boxed()
    }

    fn look<'a>(&'a self, order: &'a certificate::Order) -> BoxFuture<'a, Result<Look, Error>> {
        async move {
            let look = self.supply.fuse.through(self.inner.look(order)).await?;
            if self.supply.issuer_fails.load(Ordering::SeqCst) && order.held.is_none() {
                return Ok(Look::Failed {
                    reason: "no proof was found".into(),
                    remedy: "look for it".into(),
                });
            }
            if let Look::Issued(certificate) = &look {
                let mut signed = self.supply.signed.lock().unwrap();
                signed
                    .entry((order.id.clone(), order.serial))
                    .or_default()
                    .insert(certificate.serial.clone());
            }
            Ok(look)
        }
        .boxed()
    }

    fn proofs_served<'a>(&'a self, order: &'a certificate::Order) -> BoxFuture<'a, Result<(), Error>> {
        self.supply.fuse.through(self.inner.proofs_served(order)).boxed()
    }

    fn renewal<'a>(&'a self, order: &'a certificate::Order) -> BoxFuture<'a, Result<Renewal, Error>> {
        self.supply.fuse.through(self.inner.renewal(order)).boxed()
    }

    fn in_use<'a>(&'a self, order: &'a certificate::Order) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        self.supply.fuse.through(self.inner.in_use(order)).boxed()
    }

    fn remove<'a>(&'a self, order: &'a certificate::Order) -> BoxFuture<'a, Result<(), Error>> {
        self.supply.fuse.through(self.inner.remove(order)).boxed()
    }
}

/// A cluster with players of the gateways' pods.
pub struct Scene {
    pub cluster: Cluster,
    pub supply: Supply,
    player: tokio::task::JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.player.abort();
    }
}

impl Scene {
    pub async fn new() -> Self {
        let cluster = Cluster::start().await;
        let player = tokio::spawn(play(cluster.client.clone()));
        Self { cluster, supply: Supply::new(), player }
    }

    pub fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    /// All controllers, with the test's suppliers.
    pub fn operator(&self) -> Running {
        self.operator_with(self.supply.clone(), |_| {})
    }

    pub fn operator_with(&self, supply: Supply, edit: impl FnOnce(&mut Config)) -> Running {
        self.cluster.configured(|config| {
            config.hostnames.suppliers = Some(SuppliersRef::new(supply));
            edit(config);
        })
    }

    pub async fn namespace(&self, name: &str) {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::all(self.client()).create(&PostParams::default(), &namespace).await.unwrap();
    }

    pub fn requests(&self, namespace: &str) -> Api<GatewayHostnameRequest> {
        Api::namespaced(self.client(), namespace)
    }

    pub async fn ask(&self, namespace: &str, name: &str, hostname: &str) {
        self.ask_for(namespace, name, json!({"zoneId": "example.test", "hostname": hostname})).await;
    }

    pub async fn ask_for(&self, namespace: &str, name: &str, spec: Value) {
        let request: GatewayHostnameRequest = serde_json::from_value(json!({
            "apiVersion": names::API_VERSION, "kind": "GatewayHostnameRequest", "metadata": {"name": name}, "spec": spec,
        }))
        .unwrap();
        self.requests(namespace).create(&PostParams::default(), &request).await.unwrap();
    }

    pub async fn change(&self, namespace: &str, name: &str, spec: Value) {
        let patch = json!({"spec": spec});
        self.requests(namespace).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn delete(&self, namespace: &str, name: &str) {
        self.requests(namespace).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn gone(&self, namespace: &str, name: &str) {
        eventually(&format!("{namespace}/{name} is gone"), || async {
            self.requests(namespace).get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    /// Waits for a condition of the newest generation; the request.
    pub async fn says(
        &self,
        (namespace, name): (&str, &str),
        (kind, status, reason): (ConditionType, &str, &str),
    ) -> GatewayHostnameRequest {
        eventually(&format!("{namespace}/{name}: {kind} {status} {reason}"), || async {
            let request = self.requests(namespace).get(name).await.unwrap();
            let all = request.status.clone().unwrap_or_default().conditions;
            let is_so = conditions::find(&all, kind).is_some_and(|found| {
                found.status == status
                    && found.reason == reason
                    && found.observed_generation == request.metadata.generation
            });
            let line =
                |one: &Condition| format!("{} {} {}: {}", one.type_, one.status, one.reason, one.message);
            if is_so { Ok(request) } else { Err(all.iter().map(line).collect::<Vec<_>>().join("\n")) }
        })
        .await
    }

    pub async fn ready(&self, namespace: &str, name: &str) -> GatewayHostnameRequest {
        self.says((namespace, name), (ConditionType::Ready, "True", "Ready")).await
    }

    pub async fn claims(&self) -> BTreeMap<String, String> {
        let claims = Api::<DomainClaim>::all(self.client()).list(&ListParams::default()).await.unwrap().items;
        claims.into_iter().map(|claim| (claim.spec.hostname, claim.spec.owner_ref.namespace)).collect()
    }

    pub async fn orders(&self) -> Vec<Secret> {
        let secrets =
            Api::<Secret>::namespaced(self.client(), EDGE).list(&ListParams::default()).await.unwrap().items;
        secrets.into_iter().filter(|secret| secret.name_any().starts_with("hostname-")).collect()
    }

    pub fn gateway_api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind));
        Api::namespaced_with(self.client(), namespace, &resource)
    }

    pub async fn gateways(&self) -> Vec<DynamicObject> {
        self.gateway_api("Gateway", EDGE).list(&ListParams::default()).await.unwrap().items
    }

    pub async fn grant(&self, namespace: &str) -> Option<HostnameGrant> {
        Api::<HostnameGrant>::namespaced(self.client(), namespace)
            .get_opt(names::HOSTNAME_GRANT)
            .await
            .unwrap()
    }

    /// Waits until nothing is left of any request.
    pub async fn is_bare(&self) {
        eventually("nothing is left", || async {
            let left = (
                self.supply.zones.names().len(),
                self.claims().await.len(),
                self.orders().await.len(),
                self.gateways().await.len(),
            );
            left == (0, 0, 0, 0)
        })
        .await;
    }
}

/// Says for every Gateway what its only pod would say once it runs its newest plan.
async fn play(client: Client) {
    let plans: Api<GatewayPlan> = Api::namespaced(client.clone(), EDGE);
    let pods: Api<Pod> = Api::namespaced(client, EDGE);
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(list) = plans.list(&ListParams::default()).await else { continue };
        for plan in list.items {
            let name = plan.name_any();
            let pod = format!("{name}-pod");
            let replicas = plan.status.as_ref().map(|status| status.replicas.clone()).unwrap_or_default();
            let is_said =
                replicas.iter().any(|replica| replica.running_generation == plan.metadata.generation);
            if is_said {
                continue;
            }
            let object: Pod = serde_json::from_value(json!({
                "metadata": {"name": pod, "labels": {
                    "app": "gateway", "causeway.dev/owner-name": name, "causeway.dev/owner-kind": "Gateway",
                    "app.kubernetes.io/managed-by": "causeway",
                }},
                "spec": {
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{"name": "gateway", "image": "x", "securityContext": {
                        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    }}],
                },
            }))
            .unwrap();
            let _ = pods.create(&PostParams::default(), &object).await;
            let entry = json!({
                "apiVersion": names::API_VERSION, "kind": "GatewayPlan", "metadata": {"name": name},
                "status": {"replicas": [{
                    "name": pod, "serving": true, "gatewayGeneration": plan.spec.gateway_generation,
                    "runningGeneration": plan.metadata.generation,
                }]},
            });
            let params = PatchParams::apply(&format!("causeway-gateway-{pod}")).force();
            let _ = plans.patch_status(&name, &params, &Patch::Apply(&entry)).await;
        }
    }
}
