//! Two replicas under a constant load while their object is edited and their program is replaced.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;
use causeway_testkit::server::{Server, program};
use serde_json::{Value, json};

use crate::load::Load;
use crate::manifests;
use crate::tls::{Authority, Client};

/// For one replica after another.
const ROLLED_WITHIN: Duration = Duration::from_mins(1);

#[test]
fn twenty_edits_and_an_upgrade_under_load_fail_no_request_with_the_native_engine() {
    let addresses = ["127.78.0.20:8446", "127.78.0.21:8446"].map(|text| text.parse().unwrap());
    let world = World::new("Native", addresses, &[]);
    let load = world.load();
    let warned = world.warnings();
    for (number, edit) in followed().into_iter().enumerate() {
        let pods = world.pods();
        world.edit(&edit);
        world.settled(&format!("edit {number}: {edit}"), "");
        assert_eq!(world.pods(), pods, "{edit} was followed by the pods that run");
    }
    assert_eq!(world.warnings(), warned, "an edit is no reason to warn");

    world.edit(&json!({"adminPort": 9911}));
    world.settled("another port of admin", "9911");
    let third = |address: &str| json!({"replicas": 3, "networkConfig": {"additionalServerIPs": ["127.78.0.21", address]}});
    world.edit(&third("127.78.0.22"));
    world.settled("a third replica", "127.78.0.22");
    world.edit(&third("127.78.0.23"));
    world.settled("the third at another address", "127.78.0.23");
    world.edit(&json!({"replicas": 2, "networkConfig": {"additionalServerIPs": ["127.78.0.21"]}}));
    world.settled("two again", "");
    world.edit(&json!({"managerImage": "causeway.dev/causeway:next"}));
    world.settled("the upgrade", "causeway:next");
    world.check(load);
}

#[test]
fn a_change_of_engine_there_and_back_under_load_fails_no_request() {
    let Some(envoy) = causeway_testkit::envoy::program() else { return };
    let program = format!("envoyproxy/envoy={}", envoy.display());
    let addresses = ["127.78.0.30:8447", "127.78.0.31:8447"].map(|text| text.parse().unwrap());
    let world = World::new("Native", addresses, &["--program", &program]);
    let load = world.load();
    world.edit(&json!({"engine": "Envoy"}));
    world.settled("Envoy instead", "envoyproxy/envoy");
    let pods = world.pods();
    world.edit(&json!({"connectionLimit": 5000, "logLevel": "warning"}));
    world.settled("settings of an Envoy that runs", "");
    assert_eq!(world.pods(), pods);
    world.edit(&json!({"drainSeconds": 5}));
    world.settled("what Envoy can't be told as it runs", "");
    world.edit(&json!({"engine": "Native"}));
    world.settled("our own engine again", r#""name":"proxy""#);
    world.check(load);
}

/// Edits that the pods that run can follow.
fn followed() -> Vec<Value> {
    let one = |fields: Value| {
        let mut backends = [manifests::backend("one", "old"), manifests::backend("two", "moved")];
        for (key, value) in fields.as_object().into_iter().flatten() {
            backends[0][key] = value.clone();
        }
        json!({"backends": backends})
    };
    vec![
        json!({"drainSeconds": 10}),
        json!({"drainSeconds": 5}),
        json!({"logLevel": "debug"}),
        json!({"logLevel": "warning"}),
        json!({"connectionLimit": 5000}),
        json!({"connectionLimit": null}),
        json!({"connectionsPerSource": 4000}),
        json!({"port": 8446}),
        one(json!({"alternateHostnames": ["new.example.test"]})),
        one(json!({"timeoutSeconds": 7})),
        one(json!({"idleTimeoutSeconds": 600})),
        one(json!({"balancing": "LeastConnections"})),
        one(json!({"balancing": "SourceHash"})),
        one(json!({"connectionLimit": 4000})),
        one(json!({"slowStartSeconds": 1})),
        one(json!({"healthCheck": {"kind": "TLS", "intervalSeconds": 1}})),
        one(json!({"targetService": "two"})),
        json!({"ports": [{"port": 8446, "noSNI": {"backend": "one"}}]}),
        json!({"ports": [{"port": 8446, "unknownSNI": {"refuse": "Close"}}]}),
        json!({"ports": null, "backends": [manifests::backend("one", "old")]}),
        json!({"backends": [manifests::backend("one", "old"), manifests::backend_on(8546, "two", "moved")]}),
    ]
}

struct World {
    _server: Server,
    kubectl: Kubectl,
    clients: Vec<Client>,
    begun: Instant,
}

impl World {
    fn new(engine: &str, addresses: [SocketAddr; 2], up: &[&str]) -> Self {
        // A binary of its own, as an upgrade brings one.
        let next = tempfile::tempdir().unwrap().keep().join("causeway");
        std::os::unix::fs::symlink(program(), &next).unwrap();
        let next = format!("causeway.dev/causeway:next={}", next.display());
        let server = Server::start(&[&["--program", &next], up].concat());
        let kubectl = server.kubectl();
        kubectl.trust();
        let authority = Authority::new();
        kubectl.apply(&manifests::services(&authority)).ok();
        let [first, second] = addresses.map(|address| address.ip());
        let proxy = manifests::proxy(engine, addresses[0]).replace(
            &format!("{{serverIP: {first}}}"),
            &format!("{{serverIP: {first}, additionalServerIPs: [{second}]}}\n  replicas: 2"),
        );
        kubectl.apply(&proxy).ok();
        kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
        let service: SocketAddr =
            format!("{}:{}", kubectl.value("proxyserver/edge", ".status.serviceIP"), addresses[0].port())
                .parse()
                .unwrap();
        let clients = [addresses[0], addresses[1], service, service]
            .map(|address| Client::new(address, &authority))
            .into_iter()
            .cycle()
            .take(16);
        Self { kubectl, clients: clients.collect(), begun: Instant::now(), _server: server }
    }

    /// 200 requests a second: a quarter by each address, half by the Service.
    fn load(&self) -> Load {
        eventually("every way is open", ROLLED_WITHIN, || {
            self.clients.iter().all(|client| client.ask("old.example.test").is_ok())
        });
        Load::paced(&self.clients, "old.example.test", Duration::from_millis(80))
    }

    fn edit(&self, spec: &Value) {
        let patch = json!({"spec": spec}).to_string();
        self.kubectl.ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &patch]);
    }

    /// Waits until every pod has taken the edit, and every Deployment has `text` in its template.
    fn settled(&self, what: &str, text: &str) {
        let object = |args: &[&str]| -> Value {
            serde_json::from_str(&self.kubectl.ok(&[&["get", "-o", "json"], args].concat())).unwrap()
        };
        eventually(what, ROLLED_WITHIN, || {
            let proxy = object(&["proxyserver", "edge"]);
            let conditions = proxy["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|condition| {
                condition["type"] == "Ready"
                    && condition["status"] == "True"
                    && condition["observedGeneration"] == proxy["metadata"]["generation"]
                    && !condition["message"].as_str().unwrap_or_default().contains("to be replaced")
            });
            let deployments = object(&["deployments", "-l", "app=proxy-server"]);
            let deployments = deployments["items"].as_array().unwrap();
            let count = |deployment: &Value, field: &str| deployment["status"][field].as_i64().unwrap_or(0);
            let are_out = deployments.iter().all(|deployment| {
                deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
                    && ["replicas", "updatedReplicas", "availableReplicas"]
                        .iter()
                        .all(|field| count(deployment, field) == 1)
            });
            let templates: String = deployments.iter().map(|d| d["spec"]["template"].to_string()).collect();
            let has_text = if text.starts_with("127.") {
                templates.contains(text)
            } else {
                deployments.iter().all(|d| d["spec"]["template"].to_string().contains(text))
            };
            let replicas = proxy["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
            is_ready && are_out && has_text && deployments.len() == replicas
        });
    }

    /// The Events that warn of the proxy.
    fn warnings(&self) -> String {
        let warnings = "type=Warning,involvedObject.kind=ProxyServer";
        self.kubectl.ok(&["get", "events", "--field-selector", warnings, "-o", "name"])
    }

    /// The names of the pods that are not told to end.
    fn pods(&self) -> Vec<String> {
        let text = self.kubectl.ok(&["get", "pods", "-l", "app=proxy-server", "-o", "json"]);
        let pods: Value = serde_json::from_str(&text).unwrap();
        let living = pods["items"].as_array().unwrap().iter();
        let living = living.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        living.map(|pod| pod["metadata"]["name"].to_string()).collect()
    }

    fn check(&self, load: Load) {
        let took = self.begun.elapsed();
        let (answered, failures) = load.stop();
        let rate = answered as f64 / took.as_secs_f64();
        println!("{answered} requests in {took:.1?}, {rate:.0} a second, {} failed", failures.len());
        let first = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(failures.is_empty(), "{} of {answered} requests failed:\n{first}", failures.len());
    }
}
