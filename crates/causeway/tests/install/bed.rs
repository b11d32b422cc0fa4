//! The cluster, which is as it was before at the end of each test, and what is installed and asked in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::kubernetes::{Image, TestCluster};
use causeway_testkit::server::program;
use serde_json::{Value, json};

/// The image that the chart names.
pub const IMAGE: &str = "causeway.dev/causeway:0.1.0";
/// The same program as another version would be named.
pub const NEXT_IMAGE: &str = "causeway.dev/causeway:0.1.1";
pub const NAMESPACE: &str = "causeway-system";
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The cluster, for one test at a time.
pub struct Bed {
    pub cluster: &'static TestCluster,
    pub kubectl: Kubectl,
    pub files: tempfile::TempDir,
    before: BTreeSet<String>,
    _turn: MutexGuard<'static, ()>,
}

fn cluster() -> Option<&'static TestCluster> {
    static SHARED: OnceLock<Option<TestCluster>> = OnceLock::new();
    SHARED
        .get_or_init(|| {
            let cluster = TestCluster::start(2)?;
            for name in [IMAGE, NEXT_IMAGE] {
                cluster.load(&Image::of_program(name, program().as_ref(), "causeway").unwrap()).unwrap();
            }
            cluster.install_gateway_api().unwrap();
            Some(cluster)
        })
        .as_ref()
}

impl Bed {
    /// None where there is no cluster.
    pub fn new() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let cluster = cluster()?;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let kubectl = cluster.kubectl("");
        let files = tempfile::tempdir().unwrap();
        let mut bed = Self { cluster, kubectl, files, before: BTreeSet::new(), _turn: turn };
        // A test that failed has left it.
        if bed.kubectl.run(&["get", "namespace", NAMESPACE]).code == Some(0) {
            bed.causeway(&["uninstall", "--all", "--crds", "--yes"]);
        }
        bed.before = inventory(&bed.kubectl);
        Some(bed)
    }

    /// This program, with the administrator's kubeconfig.
    pub fn causeway(&self, args: &[&str]) -> Ran {
        Self::causeway_as(self.cluster.kubeconfig(), args)
    }

    pub fn causeway_as(kubeconfig: &Path, args: &[&str]) -> Ran {
        finish(Command::new(program()).env("KUBECONFIG", kubeconfig).args(args).stdin(Stdio::null()))
    }

    /// Installs it as it comes, with our engine, since there is no image of Envoy.
    pub fn install(&self) {
        let said = self.causeway(&["install", "--set", "proxies.engine=native"]).ok();
        println!("{said}");
    }

    /// Takes all of it out, and compares the cluster with what it was at the beginning.
    pub fn uninstall(&self) {
        let said = self.causeway(&["uninstall", "--all", "--crds", "--yes"]).ok();
        assert!(said.contains("removed; nothing is left"), "{said}");
        self.is_as_before();
    }

    pub fn is_as_before(&self) {
        eventually("the cluster is as it was", PATIENCE, || {
            let now = inventory(&self.kubectl);
            let (more, less): (Vec<_>, Vec<_>) =
                (now.difference(&self.before).collect(), self.before.difference(&now).collect());
            if more.is_empty() && less.is_empty() {
                Ok(())
            } else {
                Err(format!("more {more:?}, less {less:?}"))
            }
        });
    }

    pub fn objects(&self) -> usize {
        inventory(&self.kubectl).len() - self.before.len()
    }

    /// A Deployment with two pods of an HTTP server and a Gateway that leads to it; where it is asked.
    pub fn gateway(&self, namespace: &str) -> String {
        let kubectl = self.cluster.namespace(namespace);
        let container = json!({
            "name": "server", "image": IMAGE, "imagePullPolicy": "Never",
            "args": ["echo", "--listen", "0.0.0.0:8080", "--name", "web"],
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        });
        let objects = [
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {
                    "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
                },
            }),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
            }),
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "front"},
                "spec": {"gatewayClassName": "causeway", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
            }),
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "web"},
                "spec": {"parentRefs": [{"name": "front"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]},
            }),
        ];
        for object in objects {
            kubectl.apply(&object.to_string()).ok();
        }
        kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
        let services =
            ["get", "services", "-l", "gateway.networking.k8s.io/gateway-name=front", "-o", "json"];
        let address = eventually("the Gateway has an address", PATIENCE, || {
            let list: Value = serde_json::from_str(&kubectl.ok(&services)).unwrap();
            let address = list["items"][0]["spec"]["clusterIP"].as_str().map(ToOwned::to_owned);
            address.ok_or_else(|| kubectl.run(&["describe", "gateway/front"]).stdout)
        });
        eventually("the Gateway answers", PATIENCE, || {
            let mut curl = self.cluster.on_node("curl");
            let ran = finish(curl.args(["--silent", "--max-time", "2", &format!("http://{address}/")]));
            if ran.stdout.contains("web") {
                Ok(())
            } else {
                Err(kubectl.run(&["describe", "gateway/front"]).stdout)
            }
        });
        address
    }

    /// Asks an address all the time, until it is stopped.
    pub fn load(&self, address: &str) -> Load {
        let log = self.files.path().join("load");
        // Curl asks on one connection at a time, a new one for each.
        let script = format!(
            "while true; do curl --silent --output /dev/null --max-time 5 --write-out '%{{http_code}}\\n' http://{address}/ || true; sleep 0.01; done"
        );
        let output = fs::File::create(&log).unwrap();
        let mut shell = self.cluster.on_node("sh");
        let child = shell
            .args(["-c", &script])
            .stdout(output)
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Load { child, log }
    }
}

/// Requests that go on.
pub struct Load {
    child: Child,
    log: PathBuf,
}

impl Load {
    /// How many were answered so far.
    pub fn answered(&self) -> usize {
        fs::read_to_string(&self.log).unwrap().lines().filter(|code| *code == "200").count()
    }

    /// Ends it: how many there were, all of which must have been answered.
    pub fn stop(mut self, when: &str) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let log = fs::read_to_string(&self.log).unwrap();
        let failed: Vec<&str> = log.lines().filter(|code| *code != "200").collect();
        println!("{when}: {} requests, {} failed", log.lines().count(), failed.len());
        assert!(failed.is_empty(), "{when}: {failed:?}");
    }
}

/// The names of all that an installation could leave behind.
fn inventory(kubectl: &Kubectl) -> BTreeSet<String> {
    let kinds = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                 validatingadmissionpolicybindings,gatewayclasses,priorityclasses,roles,rolebindings,deployments,services,\
                 secrets,configmaps,serviceaccounts,networkpolicies,poddisruptionbudgets";
    let listed = kubectl.ok(&["get", kinds, "--all-namespaces", "-o", "json"]);
    let list: Value = serde_json::from_str(&listed).unwrap();
    let name = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
    };
    list["items"].as_array().unwrap().iter().map(name).collect()
}
