//! The cluster, which is as it was before at the end of each test, and what is installed and asked in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

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

    /// The same, to be run in a way of the caller's own.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.env("KUBECONFIG", self.cluster.kubeconfig()).args(args).stdin(Stdio::null());
        command
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
        self.answers(&address, || kubectl.run(&["describe", "gateway/front"]).stdout);
        address
    }

    /// A ProxyServer of two pods beside the Gateway of that namespace, to the same server; where it is asked.
    pub fn proxy(&self, namespace: &str) -> String {
        let kubectl = self.cluster.kubectl(namespace);
        kubectl.apply(&proxy_server(namespace, "px").to_string()).ok();
        let address = eventually("the ProxyServer has an address", PATIENCE, || {
            let found = kubectl.run(&["get", "service/px", "-o", "jsonpath={.spec.clusterIP}"]);
            if found.stdout.is_empty() { Err(found.to_string()) } else { Ok(found.stdout) }
        });
        self.answers(&address, || kubectl.run(&["describe", "pxs/px"]).stdout);
        address
    }

    fn answers(&self, address: &str, why: impl Fn() -> String) {
        eventually(&format!("{address} answers"), PATIENCE, || {
            let mut curl = self.cluster.on_node("curl");
            let ran = finish(curl.args(["--silent", "--max-time", "2", &format!("http://{address}/")]));
            if ran.stdout.contains("web") { Ok(()) } else { Err(why()) }
        });
    }

    /// Asks addresses all the time, until it is stopped.
    pub fn load(&self, addresses: &[&str]) -> Load {
        let asker = |(number, address): (usize, &&str)| {
            let log = self.files.path().join(format!("load-{number}"));
            let mut curl = self.cluster.on_node("curl");
            curl.args(["--silent", "--rate", "25/s", "--max-time", "10", "--output", "/dev/null"]);
            // A connection of its own for each.
            curl.args(["--header", "Connection: close"]);
            // Standard output comes in blocks, the last of which would be lost.
            curl.args(["--write-out", "%{stderr}%{http_code} %{time_total} %{errormsg}\n"]);
            curl.arg(format!("http://{address}/?[1-1000000]"));
            let out = fs::File::create(&log).unwrap();
            let child = curl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out).spawn().unwrap();
            (child, log)
        };
        let each = addresses.iter().flat_map(|address| std::iter::repeat_n(address, ASKERS));
        Load {
            askers: each.enumerate().map(asker).collect(),
            addresses: addresses.len(),
            start: Instant::now(),
        }
    }
}

/// A ProxyServer of two pods in the pod network that leads to the server `web` of its namespace, also without TLS.
pub fn proxy_server(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2, "engine": "Native", "ports": [{"port": 80, "plaintext": {"backend": "web"}}],
            "backends": [{
                "name": "web", "hostname": "web.example.com", "port": 80, "protocol": "TCP",
                "targetService": "web", "targetPort": 80, "targetNamespace": namespace,
            }],
        },
    })
}

/// Programs that ask an address, up to 25 times a second each: twice what the rate needs, as each waits for its answers, and there may
/// be little time for them on a busy machine.
const ASKERS: usize = 8;
/// Requests a second for each address that a load must have had.
const RATE: f64 = 100.0;

/// Requests that go on.
pub struct Load {
    askers: Vec<(Child, PathBuf)>,
    addresses: usize,
    start: Instant,
}

impl Load {
    /// The answers so far; the last line of each may be half of one.
    fn lines(&self) -> Vec<String> {
        let texts = self.askers.iter().map(|(_, log)| fs::read_to_string(log).unwrap());
        let lines = texts.flat_map(|text| {
            text.split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        lines.collect()
    }

    /// How many were answered so far.
    pub fn answered(&self) -> usize {
        self.lines().iter().filter(|line| line.starts_with("200 ")).count()
    }

    /// Ends it: how many there were, all of which must have been answered, and at which rate.
    pub fn stop(self, when: &str) {
        let (lines, seconds) = (self.lines(), self.start.elapsed().as_secs_f64());
        let failed: Vec<&String> = lines.iter().filter(|line| !line.starts_with("200 ")).collect();
        let per = |count: usize| f64::from(u32::try_from(count).unwrap());
        let rate = per(lines.len()) / seconds / per(self.addresses);
        println!(
            "{when}: {} requests in {seconds:.0} s, {rate:.0}/s for each of {}, {} failed",
            lines.len(),
            self.addresses,
            failed.len()
        );
        assert!(failed.is_empty(), "{when}: {failed:?}");
        assert!(rate >= RATE, "{when}: {rate:.0} requests a second and address");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for (asker, _) in &mut self.askers {
            let _ = asker.kill();
            let _ = asker.wait();
        }
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
