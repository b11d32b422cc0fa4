//! A proxy's agent: what it gives its runner to run, and when it goes on with what it knew.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use causeway_agent::{Leave, Proxy};
use causeway_api::{Engine, ProxyServer, Supply, names};
use causeway_ir::Plan;
use causeway_testkit::{Cluster, eventually, soon};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::paper;

const NAMESPACE: &str = "default";

/// A running agent of a proxy.
struct Running(paper::Running<Plan>);

impl Deref for Running {
    type Target = paper::Running<Plan>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Running {
    async fn start(client: Client, state: &Path) -> Self {
        Self::start_that_leaves(Leave::Unready, "edge-0", client, state).await
    }

    /// The pod of this name.
    async fn start_that_leaves(leave: Leave, pod: &str, client: Client, state: &Path) -> Self {
        let followed = Proxy {
            name: "edge".into(),
            pod: pod.into(),
            pod_ip: Ipv4Addr::LOCALHOST.into(),
            server_ip: None,
            engine: Engine::Native,
            follow_log_level: Box::new(|_| {}),
        };
        let report = ("edge", names::report_manager(pod));
        Self(paper::Running::start_that_leaves(leave, client, followed, report, state).await)
    }

    fn has_plan(&self) -> bool {
        self.plans.borrow().is_some()
    }

    /// Waits until it says so: it looks at its networks first.
    async fn is_ready(&self) {
        eventually("it is ready", async || {
            let answer = self.get("/ready").await;
            if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
        })
        .await;
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

    /// Supplies a part of a set: a route for this name to a Service elsewhere, with the Service.
    async fn supply(&self, part: usize, parts: usize, hostname: &str) {
        let service = json!({
            "metadata": {"name": hostname.replace('.', "-"), "namespace": "elsewhere"},
            "spec": {"ports": [{"port": 443}]},
        });
        let slice = json!({
            "metadata": {"name": "s", "namespace": "elsewhere",
                         "labels": {"kubernetes.io/service-name": service["metadata"]["name"]}},
            "addressType": "IPv4", "ports": [{"name": "", "port": 8443, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["127.0.0.7"]}],
        });
        let target = json!({"namespace": "elsewhere", "service": service["metadata"]["name"], "port": 443, "weight": 1});
        let name = format!("edge.{parts}.{part}");
        let object = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Supply",
            "metadata": {"name": name, "labels": {
                names::LABEL_OWNER_KIND: "ProxyServer", names::LABEL_OWNER_NAME: "edge",
            }},
            "spec": {
                "part": part, "parts": parts,
                "services": [{"service": service, "slices": [slice]}],
                "routes": [{
                    "kind": "TLSRoute", "namespace": "elsewhere", "name": format!("route-{part}"), "ports": [443],
                    "hostnames": [hostname], "targets": [target],
                }],
            },
        });
        self.apply::<Supply>(&name, &object).await;
    }

    /// Waits until the agent has this on disk: it is written once it runs.
    async fn saved(&self, part: &str) {
        eventually(&format!("{part} is on disk"), async || {
            let files = std::fs::read_dir(self.state.path()).unwrap().flatten();
            let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
            texts.any(|text| text.contains(part))
        })
        .await;
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
    agent.is_ready().await;
    world.report("of serving", |report| report["serving"] == true).await;
    world.endpoint("127.0.0.2").await;
    agent.plan("with the new endpoint", |plan| leads_to(plan, "127.0.0.2:8443")).await;
    world.object(&["two.test"]).await;
    agent.plan("with the new name", |plan| names_server(plan, "two.test")).await;
    world.report("of the new spec", |report| report["observedGeneration"] == 2).await;

    agent.stop.cancel();
    soon("the end of the agent", &mut agent.0.task).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_somebody_took_away_is_made_again() {
    let world = World::new().await;
    world.object(&["one.test"]).await;
    let _agent = world.start().await;
    world.report("of serving", |report| report["serving"] == true).await;
    let nothing = json!({"status": {"replicas": []}});
    let api = world.cluster.api::<ProxyServer>();
    api.patch_status("edge", &PatchParams::default(), &Patch::Merge(&nothing)).await.unwrap();
    world.report("of serving, again", |report| report["serving"] == true).await;
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
    agent.is_ready().await;
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
    world.saved("127.0.0.1").await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_service_leads_to_keeps_to_one_object_and_the_others_follow_a_name() {
    let world = World::new().await;
    world.object(&["one.example.com"]).await;
    let client = || world.cluster.client.clone();
    let behind = |state: std::path::PathBuf| async move {
        Running::start_that_leaves(Leave::Ready, "edge-1", client(), &state).await
    };
    let (state, own) = (world.state.path().to_owned(), tempfile::tempdir().unwrap());
    let kept = behind(state.clone()).await;
    let follows = Running::start(client(), own.path()).await;
    for pod in [&kept, &follows] {
        pod.plan("of the first object", |plan| names_server(plan, "one.example.com")).await;
    }
    world.saved("one.example.com").await;
    world.cluster.api::<ProxyServer>().delete("edge", &DeleteParams::default()).await.unwrap();
    world.object(&["two.example.com"]).await;
    follows.plan("of the second object", |plan| names_server(plan, "two.example.com")).await;
    let mut plans = kept.plans.clone();
    let second =
        plans.wait_for(|plan| plan.as_ref().is_some_and(|plan| names_server(plan, "two.example.com")));
    assert!(
        tokio::time::timeout(Duration::from_millis(500), second).await.is_err(),
        "it took up another plan"
    );
    // A process of the same pod that starts again keeps to it, too.
    drop(kept);
    let kept = behind(state).await;
    kept.plan("of the first object", |plan| names_server(plan, "one.example.com")).await;
    let entry = |name: &'static str| move |report: &Value| report["name"] == name;
    world.report("of who follows the name", entry("edge-0")).await;
    let object = world.cluster.api::<ProxyServer>().get("edge").await.unwrap();
    let replicas = serde_json::to_value(object.status.unwrap()).unwrap()["replicas"].clone();
    assert_eq!(replicas.as_array().unwrap().len(), 1, "{replicas}");
    // One that has nothing of another follows what there is.
    let fresh = tempfile::tempdir().unwrap();
    let later = Running::start_that_leaves(Leave::Ready, "edge-2", client(), fresh.path()).await;
    later.plan("of the second object", |plan| names_server(plan, "two.example.com")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_pod_starts_from_the_last_accepted_spec_while_the_newest_is_refused() {
    let world = World::new().await;
    world.object(&["one.test"]).await;
    let good = world.cluster.api::<ProxyServer>().get("edge").await.unwrap();
    world.object(&["one.test", "one.test"]).await;
    // Nothing is left of any earlier pod but what somebody else keeps.
    let kept = world.state.path().join("accepted.json");
    std::fs::write(&kept, serde_json::to_vec(&good).unwrap()).unwrap();
    let agent = world.start().await;
    agent
        .plan("of the accepted spec", |plan| {
            names_server(plan, "one.test") && leads_to(plan, "127.0.0.1:8443")
        })
        .await;
    let report = world.report("of the refusal", |report| report["refused"].is_string()).await;
    assert_eq!((&report["observedGeneration"], &report["runningGeneration"]), (&json!(2), &json!(1)));
    drop(agent);

    // Rubbish there is no reason not to start.
    std::fs::write(&kept, "{").unwrap();
    world.object(&["two.test"]).await;
    let agent = world.start().await;
    agent.plan("of the mended spec", |plan| names_server(plan, "two.test")).await;
}

fn endpoints(plan: &Plan) -> usize {
    plan.clusters
        .iter()
        .filter(|cluster| cluster.name.starts_with("elsewhere/"))
        .map(|c| c.endpoints.len())
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_come_by_supply_whose_parts_count_together_and_are_kept_on_disk() {
    let world = World::new().await;
    world.object(&["one.test"]).await;
    world.supply(0, 1, "first.test").await;
    let agent = world.start().await;
    agent.plan("with the route", |plan| names_server(plan, "first.test") && endpoints(plan) == 1).await;
    world.report("of the route", |report| report["routes"] == 1 && report["readyRoutes"] == 1).await;

    world.supply(0, 2, "second.test").await;
    world.endpoint("127.0.0.2").await;
    agent
        .plan("made after half of a set was there", |plan| {
            plan.clusters
                .iter()
                .any(|c| c.endpoints.iter().any(|e| e.address.to_string() == "127.0.0.2:8443"))
        })
        .await;
    assert!(
        names_server(agent.plans.borrow().as_ref().unwrap(), "first.test"),
        "half a set counts for nothing"
    );
    world.supply(1, 2, "third.test").await;
    agent
        .plan("of the whole set", |plan| {
            names_server(plan, "second.test")
                && names_server(plan, "third.test")
                && !names_server(plan, "first.test")
        })
        .await;
    world.report("of both routes", |report| report["routes"] == 2).await;
    world.saved("third.test").await;
    drop(agent);

    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let away = Client::try_from(kube::Config::new(format!("http://{gone}").parse().unwrap())).unwrap();
    let agent = Running::start(away, world.state.path()).await;
    agent.plan("from disk", |plan| names_server(plan, "third.test") && endpoints(plan) == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_told_of_though_it_can_not_be_saved() {
    let world = World::new().await;
    // Nothing can take the place of a directory that is not empty.
    std::fs::create_dir_all(world.state.path().join("proxyservers.default.edge.json/full")).unwrap();
    let agent = world.start().await;
    for name in ["first.test", "second.test"] {
        world.object(&[name]).await;
        agent.plan("of the newest spec", |plan| names_server(plan, name)).await;
        let newest = world.cluster.api::<ProxyServer>().get("edge").await.unwrap().metadata.generation;
        world.report("of the newest spec", |report| report["observedGeneration"] == json!(newest)).await;
    }
}
