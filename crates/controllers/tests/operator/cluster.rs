//! A control plane for one test, with operators that can be started and stopped.

use std::time::Duration;

use causeway_api::{
    DHCPServer, DNSServer, Infra, ProxyServer,
    conditions::{self, ConditionType},
    names,
};
use causeway_controllers::{
    Operator,
    framework::health::Health,
    framework::metrics::Metrics,
    framework::runner::{self, Reconciler, Runner},
    operator::Config,
    vlan::infra,
};
use causeway_testkit::eventually;
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct Cluster {
    cluster: causeway_testkit::Cluster,
    pub client: Client,
}

pub struct Running {
    pub health: Health,
    registry: Registry,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// What Prometheus would read.
    pub fn scrape(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// One figure of that, with its labels as they are written there.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let text = self.scrape();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok())
    }

    /// How many reconciles of Infras have ended.
    pub fn reconciles(&self) -> u64 {
        let text = self.scrape();
        let line = text.lines().find(|line| line.starts_with("causeway_operator_reconciles_total{"));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }

    /// How often a controller of everything has looked.
    pub fn looks(&self, controller: &str) -> u64 {
        let text = self.scrape();
        let start = format!("causeway_operator_reconciles_total{{controller=\"{controller}\"");
        let line = text.lines().find(|line| line.starts_with(&start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }

    /// Waits for this many more looks.
    pub async fn looked(&self, controller: &str, more: u64) {
        let goal = self.looks(controller) + more;
        eventually("more looks", || async { self.looks(controller) >= goal }).await;
    }

    /// Waits for this many more reconciles.
    pub async fn reconciled(&self, more: u64) {
        let goal = self.reconciles() + more;
        eventually("more reconciles", || async { self.reconciles() >= goal }).await;
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Ends it in the midst of whatever it does.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Cluster {
    pub async fn start() -> Self {
        let cluster = causeway_testkit::Cluster::start().await;
        Self { client: cluster.client.clone(), cluster }
    }

    /// The controller of Infras with a quick resync, alone: here the test says how the children stand, and their own
    /// controllers would take that back.
    pub fn operator(&self, identity: &str) -> Running {
        let client = self.cluster.operator.clone();
        Self::run_alone(client.clone(), infra::Controller::new(client, identity))
    }

    /// One controller of kinds of the test's own, with a quick resync.
    pub fn controller(&self, controller: impl Reconciler) -> Running {
        Self::run_alone(self.client.clone(), controller)
    }

    fn run_alone(client: Client, controller: impl Reconciler) -> Running {
        let mut registry = Registry::default();
        let metrics = Metrics::register(registry.sub_registry_with_prefix("causeway_operator"));
        let health = Health::default();
        let config = runner::Config { resync: Duration::from_millis(200), ..runner::Config::default() };
        let mut runner = Runner::new(client, config, metrics, health.clone());
        runner.register(controller);
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let task = tokio::spawn(async move { runner.run(&shutdown).await });
        Running { health, registry, stop, task }
    }

    /// An operator that takes part in the election, with a quick clock.
    pub fn elected(&self, identity: &str) -> Running {
        let mut config = Config::new("default", identity);
        if let Some(leader) = &mut config.leader {
            leader.retry = Duration::from_millis(50);
        }
        Self::run(self.client.clone(), config)
    }

    /// All controllers, without an election.
    pub fn whole(&self) -> Running {
        Self::run_whole(self.cluster.operator.clone())
    }

    /// The same, at a later time.
    pub fn later(&self, now: fn() -> jiff::Timestamp) -> Running {
        self.configured(|config| config.intercepts.now = now)
    }

    /// The same with other settings.
    pub fn configured(&self, change: impl FnOnce(&mut Config)) -> Running {
        Self::configured_with(self.cluster.operator.clone(), change)
    }

    /// The same, with this client.
    pub fn configured_with(client: Client, change: impl FnOnce(&mut Config)) -> Running {
        let mut config = Config { leader: None, ..Config::new(names::NAMESPACE, "a") };
        change(&mut config);
        Self::run(client, config)
    }

    /// The same for a cluster of OpenShift.
    pub fn on_openshift(&self) -> Running {
        self.configured(|config| config.proxy.openshift = true)
    }

    /// The same, with this client.
    pub fn run_whole(client: Client) -> Running {
        let config = Config { leader: None, ..Config::new(names::NAMESPACE, "a") };
        Self::run(client, config)
    }

    /// The operator's client, each of whose requests waits for `before`.
    pub fn operator_through<F: Future<Output = ()> + Send + 'static>(
        &self,
        before: impl Fn(&http::Request<Body>) -> F + Clone + Send + 'static,
    ) -> Client {
        let client = self.cluster.operator.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (client, before) = (client.clone(), before(&request));
            async move {
                before.await;
                client.send(request).await
            }
        });
        Client::new(service, "default")
    }

    /// The operator's client, some of whose requests are refused as too large.
    pub fn operator_refused(
        &self,
        is_refused: impl Fn(&http::Request<Body>) -> bool + Clone + Send + 'static,
    ) -> Client {
        let client = self.cluster.operator.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (client, is_refused) = (client.clone(), is_refused(&request));
            async move {
                if !is_refused {
                    return client.send(request).await;
                }
                let status = serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 413,
                    "reason": "RequestEntityTooLarge", "message": "etcdserver: request is too large",
                });
                let response =
                    http::Response::builder().status(413).body(Body::from(status.to_string().into_bytes()));
                Ok(response.unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn run(client: Client, config: Config) -> Running {
        let mut registry = Registry::default();
        let operator = Operator::new(client, config, &mut registry);
        let health = operator.health();
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let task = tokio::spawn(async move { operator.run(shutdown).await.unwrap() });
        Running { health, registry, stop, task }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        self.cluster.api()
    }

    /// The revision of the newest write.
    pub async fn revision(&self) -> u64 {
        self.cluster.revision().await
    }

    pub async fn create_infra(&self, name: &str, components: &Value) -> Infra {
        let infra: Infra = serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1",
            "kind": "Infra",
            "metadata": { "name": name },
            "spec": {
                "networkConfig": {
                    "cidr": "192.168.100.0/24",
                    "gateway": "192.168.100.1",
                    "networkAttachmentDefinition": "vlan100",
                },
                "infraComponents": components,
            },
        }))
        .unwrap();
        self.api::<Infra>().create(&PostParams::default(), &infra).await.unwrap()
    }

    pub async fn merge<K>(&self, name: &str, patch: &Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    /// Says in a child's status whether it is ready, as its own controller would.
    pub async fn report<K>(&self, name: &str, ready: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        let generation = self.api::<K>().get(name).await.unwrap().meta().generation;
        let status = json!({ "status": { "observedGeneration": generation, "conditions": [{
            "type": "Ready", "status": ready, "reason": "Test", "message": "says the test",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        self.api::<K>().patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    pub async fn report_all(&self, name: &str, ready: &str) {
        self.report::<DHCPServer>(&format!("{name}-dhcp"), ready).await;
        self.report::<DNSServer>(&format!("{name}-dns"), ready).await;
        self.report::<ProxyServer>(&format!("{name}-proxy"), ready).await;
    }

    pub async fn exists<K>(&self, name: &str) -> bool
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        self.api::<K>().get_opt(name).await.unwrap().is_some()
    }

    /// Waits until an Infra's condition has this status and reason for its newest generation; returns the Infra.
    pub async fn condition(&self, name: &str, kind: ConditionType, status: &str, reason: &str) -> Infra {
        let what = format!("{name} {kind} {status} {reason}");
        eventually(&what, || async {
            let infra = self.api::<Infra>().get(name).await.unwrap();
            let found = conditions::find(&infra.status.as_ref()?.conditions, kind)?;
            let current = found.observed_generation == infra.metadata.generation;
            (current && found.status == status && found.reason == reason).then_some(infra.clone())
        })
        .await
    }
}
