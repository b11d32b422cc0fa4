//! An agent against a real API server in this process: what it gives its runner to run, and when it goes on with what it
//! knew.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use causeway_agent::{Agent, Config, Proxy, Runner, Snapshot, changes_of};
use causeway_api::{Engine, ProxyServer, names};
use causeway_ir::Plan;
use causeway_testkit::{Cluster, eventually, soon};
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "default";

/// Runs nothing, and says that it does.
struct Paper(watch::Receiver<Option<Arc<Plan>>>);

impl Runner for Paper {
    type Plan = Plan;

    fn missing(&self) -> Vec<String> {
        if self.0.borrow().is_some() { Vec::new() } else { vec!["there is no plan".into()] }
    }

    async fn snapshot(&self) -> Snapshot<Plan> {
        Snapshot { plan: self.0.borrow().clone(), ..Snapshot::default() }
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        changes_of(self.0.clone())
    }

    async fn drain(&self) {}
}

/// A running agent; gone without a word when dropped, like a killed process.
struct Running {
    plans: watch::Receiver<Option<Arc<Plan>>>,
    health: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(client: Client, state: &Path) -> Self {
        let followed = Proxy {
            name: "edge".into(),
            pod: "edge-0".into(),
            pod_ip: Ipv4Addr::LOCALHOST.into(),
            server_ip: None,
            engine: Engine::Native,
            follow_log_level: |_| {},
        };
        let config = Config {
            namespace: NAMESPACE.into(),
            name: "edge".into(),
            field_manager: names::report_manager("edge-0"),
            state_dir: Some(state.to_owned()),
            require_grants: true,
        };
        let (agent, plans) = Agent::new(client, followed, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let health = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (stopped, runner) = (stop.clone(), Arc::new(Paper(plans.clone())));
        let task = tokio::spawn(async move {
            agent.run_until(runner, listener, stopped.cancelled(), std::future::pending()).await;
        });
        Self { plans, health, stop, task }
    }

    /// Waits for a plan like this.
    async fn plan(&self, what: &str, is_it: impl Fn(&Plan) -> bool) {
        let mut plans = self.plans.clone();
        let found = plans.wait_for(|plan| plan.as_ref().is_some_and(|plan| is_it(plan)));
        drop(soon(&format!("a plan {what}"), found).await.unwrap());
    }

    fn has_plan(&self) -> bool {
        self.plans.borrow().is_some()
    }

    async fn get(&self, path: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(self.health).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct World {
    cluster: Cluster,
    state: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let world = Self { cluster: Cluster::start().await, state: tempfile::tempdir().unwrap() };
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 443}]},
        });
        world.apply::<Service>("web", &service).await;
        world.endpoint("127.0.0.1").await;
        world
    }

    async fn start(&self) -> Running {
        Running::start(self.cluster.client.clone(), self.state.path()).await
    }

    async fn apply<K>(&self, name: &str, object: &Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let params = PatchParams::apply("test").force();
        self.cluster.api::<K>().patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Puts the one server of the Service here.
    async fn endpoint(&self, address: &str) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": [{"name": "", "port": 8443, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        });
        self.apply::<EndpointSlice>("web-1", &slice).await;
    }

    /// Writes the object with backends of these host names; two of one name can't be run.
    async fn object(&self, hostnames: &[&str]) {
        let backend = |(i, hostname): (usize, &&str)| {
            json!({
                "name": format!("b{i}"), "hostname": hostname, "port": 8443,
                "targetService": "web", "targetPort": 443, "targetNamespace": NAMESPACE,
            })
        };
        let backends: Vec<Value> = hostnames.iter().enumerate().map(backend).collect();
        let object = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": {"name": "edge"},
            "spec": {"networkConfig": {"serverIP": "127.0.0.1"}, "backends": backends},
        });
        self.apply::<ProxyServer>("edge", &object).await;
    }

    /// Waits for a report like this.
    async fn report(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("a report {what}"), async || {
            let object = self.cluster.api::<ProxyServer>().get("edge").await.unwrap();
            let status = serde_json::to_value(&object.status).unwrap();
            let report = status["replicas"][0].clone();
            if is_it(&report) { Ok(report) } else { Err(report) }
        })
        .await
    }
}

fn names_server(plan: &Plan, name: &str) -> bool {
    plan.listeners.iter().any(|listener| {
        listener
            .tls_routes()
            .iter()
            .any(|route| route.server_names.iter().any(|known| known.to_string() == name))
    })
}

fn leads_to(plan: &Plan, endpoint: &str) -> bool {
    plan.clusters.iter().all(|cluster| {
        cluster.endpoints.iter().map(|endpoint| endpoint.address.to_string()).eq([endpoint.to_owned()])
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_the_object_and_its_endpoints_and_reports() {
    let world = World::new().await;
    let mut agent = world.start().await;
    assert!(agent.get("/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(agent.get("/ready").await.contains("not ready: there is no plan"));
    world.object(&["one.test"]).await;
    agent
        .plan("of the object", |plan| names_server(plan, "one.test") && leads_to(plan, "127.0.0.1:8443"))
        .await;
    assert!(agent.get("/ready").await.starts_with("HTTP/1.1 200"));
    world.report("of serving", |report| report["serving"] == true).await;
    world.endpoint("127.0.0.2").await;
    agent.plan("with the new endpoint", |plan| leads_to(plan, "127.0.0.2:8443")).await;
    world.object(&["two.test"]).await;
    agent.plan("with the new name", |plan| names_server(plan, "two.test")).await;
    world.report("of the new spec", |report| report["observedGeneration"] == 2).await;

    agent.stop.cancel();
    soon("the end of the agent", &mut agent.task).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_spec_leaves_the_last_good_one_running_with_fresh_endpoints_also_after_a_crash() {
    let world = World::new().await;
    world.object(&["one.test"]).await;
    let agent = world.start().await;
    agent.plan("of the good spec", |plan| names_server(plan, "one.test")).await;
    world.report("of serving", |report| report["serving"] == true).await;

    world.object(&["one.test", "one.test"]).await;
    let report = world.report("of the refusal", |report| report["refused"].is_string()).await;
    assert!(report["refused"].as_str().unwrap().contains("spec.backends[1].hostname"), "{report}");
    assert_eq!((&report["serving"], &report["observedGeneration"]), (&json!(false), &json!(2)));
    world.endpoint("127.0.0.2").await;
    agent.plan("of the good spec with the new endpoint", |plan| leads_to(plan, "127.0.0.2:8443")).await;
    drop(agent);

    world.endpoint("127.0.0.3").await;
    let agent = world.start().await;
    agent
        .plan("of the good spec after a crash", |plan| {
            names_server(plan, "one.test") && plan.clusters.len() == 1 && leads_to(plan, "127.0.0.3:8443")
        })
        .await;
    assert!(agent.get("/ready").await.starts_with("HTTP/1.1 200"));
    world.report("of the refusal", |report| report["refused"].is_string()).await;

    world.object(&["two.test"]).await;
    agent.plan("of the mended spec", |plan| names_server(plan, "two.test")).await;
    world.report("of serving", |report| report["serving"] == true && report["refused"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_the_api_server_runs_what_is_on_disk() {
    let world = World::new().await;
    world.object(&["one.test"]).await;
    let agent = world.start().await;
    agent.plan("of the object", |plan| names_server(plan, "one.test")).await;
    world.report("of serving", |report| report["serving"] == true).await;
    drop(agent);

    // Nobody listens on this port: it was just given back.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let config = kube::Config::new(format!("http://{gone}").parse().unwrap());
    let away = Client::try_from(config).unwrap();
    let agent = Running::start(away, world.state.path()).await;
    agent.plan("from disk", |plan| names_server(plan, "one.test") && leads_to(plan, "127.0.0.1:8443")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_object_of_the_same_name_left_is_not_run() {
    let world = World::new().await;
    world.object(&["one.test"]).await;
    let agent = world.start().await;
    agent.plan("of the first object", |plan| names_server(plan, "one.test")).await;
    world.report("of serving", |report| report["serving"] == true).await;
    drop(agent);

    world.cluster.api::<ProxyServer>().delete("edge", &DeleteParams::default()).await.unwrap();
    world.object(&["two.test", "two.test"]).await;
    let agent = world.start().await;
    world.report("of the refusal", |report| report["refused"].is_string()).await;
    assert!(!agent.has_plan(), "{:?}", agent.plans.borrow());
}
