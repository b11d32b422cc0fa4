//! The cluster that the tests of this program share, with the operator in it, and the parts that tests build on it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use causeway_api::names;
use causeway_testkit::blocking::eventually;
use causeway_testkit::deploy;
use causeway_testkit::envoy;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::kubernetes::{Image, Machine, TestCluster};
use causeway_testkit::server::program;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

/// The image that `deploy/operator.yaml` names.
pub const IMAGE: &str = "causeway.dev/causeway:0.1.0";
/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The shared cluster; none where it can't be had.
pub fn cluster() -> Option<&'static TestCluster> {
    static SHARED: OnceLock<Option<TestCluster>> = OnceLock::new();
    SHARED
        .get_or_init(|| {
            let cluster = TestCluster::start(2)?;
            cluster.load(&Image::of_program(IMAGE, program().as_ref(), "causeway").unwrap()).unwrap();
            cluster.install_gateway_api().unwrap();
            cluster.install_virtual_machine_instances().unwrap();
            let kubectl = cluster.kubectl("");
            kubectl.ok(&["apply", "-f", deploy("operator.yaml").to_str().unwrap()]);
            // Who forgets the definitions is told of it.
            eventually("the operator says what it misses", PATIENCE, || {
                let logs = ["logs", "-n", "causeway-system", "-l", "app=causeway-operator", "--tail=-1"];
                let said = kubectl.run(&logs).stdout;
                if said.contains("does not know proxyservers: apply") { Ok(()) } else { Err(said) }
            });
            // And nobody's routes are held up meanwhile.
            let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                         metadata: {name: anybodys, namespace: default}\nspec: {hostnames: [shop.example.com]}\n";
            kubectl.apply(route).ok();
            kubectl.ok(&["delete", "httproute", "anybodys", "-n", "default"]);
            kubectl.ok(&["apply", "--server-side", "-f", deploy("crds").to_str().unwrap()]);
            let since = Instant::now();
            let rollout = [
                "rollout",
                "status",
                "deployment/causeway-operator",
                "-n",
                "causeway-system",
                "--timeout=60s",
            ];
            kubectl.ok(&rollout);
            assert!(since.elapsed() < Duration::from_secs(30), "the definitions are seen at once");
            Some(cluster)
        })
        .as_ref()
}

/// Whether the cluster has Envoy's image; it is given it when the first test asks.
pub fn has_envoy() -> bool {
    static LOADED: OnceLock<bool> = OnceLock::new();
    let load = || {
        let (Some(cluster), Some(envoy)) = (cluster(), envoy::program()) else { return false };
        let name = format!("docker.io/{}", names::ENVOY_IMAGE);
        cluster.load(&Image::of_program(&name, &envoy, "usr/local/bin/envoy").unwrap()).unwrap();
        true
    };
    *LOADED.get_or_init(load)
}

/// Takes this thread to the first node's network.
pub fn enter() {
    let (namespace, _) = cluster().unwrap().node_network();
    let file = File::open(namespace).unwrap();
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Does something in the first node's network.
pub fn there<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let acting = move || {
        enter();
        act()
    };
    std::thread::scope(|scope| scope.spawn(acting).join().unwrap())
}

/// A namespace with a VLAN, on which there is a virtual machine with no other network.
pub struct World {
    pub kubectl: Kubectl,
    pub vm: Machine,
    /// The bridge that the VLAN is made of.
    vlan: String,
    /// Where its certificates are.
    files: tempfile::TempDir,
    _turn: Turn,
}

/// The right to use the operator: as it is, beside others, or alone, to change it.
enum Turn {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

static OPERATOR: RwLock<()> = RwLock::new(());

/// The cluster for as long as nobody takes it away: for tests that have no world.
pub fn shared() -> Option<(&'static TestCluster, impl Sized)> {
    Some((cluster()?, OPERATOR.read().unwrap_or_else(PoisonError::into_inner)))
}

impl Drop for World {
    /// What is left of it would take part in the updates of others.
    fn drop(&mut self) {
        self.kubectl.run(&["delete", "namespace", &self.kubectl.namespace, "--wait=false"]);
    }
}

/// Puts the operator of `deploy/` back for whoever comes next, however the test ends that takes it out.
pub struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        let kubectl = cluster().unwrap().kubectl("");
        // Nothing can be made in a namespace that goes.
        kubectl.run(&["wait", "--for=delete", "namespace/causeway-system", "--timeout=60s"]);
        kubectl.run(&["apply", "--server-side", "-f", deploy("crds").to_str().unwrap()]);
        kubectl.run(&["apply", "-f", deploy("operator.yaml").to_str().unwrap()]);
        let status =
            ["rollout", "status", "deployment/causeway-operator", "-n", "causeway-system", "--timeout=60s"];
        kubectl.run(&status);
    }
}

impl World {
    /// None where there is no cluster.
    pub fn new(name: &str) -> Option<Self> {
        Self::make(name, || Turn::Shared(OPERATOR.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// For a test that changes the operator: no other runs meanwhile.
    pub fn alone(name: &str) -> Option<Self> {
        let world =
            Self::make(name, || Turn::Alone(OPERATOR.write().unwrap_or_else(PoisonError::into_inner)))?;
        eventually("the proxies of others are gone", PATIENCE, || {
            let left = world.kubectl.ok(&["get", "proxyservers", "--all-namespaces", "-o", "name"]);
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        Some(world)
    }

    fn make(name: &str, turn: impl Fn() -> Turn) -> Option<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(100);
        let cluster = cluster()?;
        let turn = turn();
        let vlan = format!("vlan{}", NEXT.fetch_add(1, Ordering::Relaxed));
        cluster.lay_vlan(&vlan).unwrap();
        let vm = cluster.plug_in(&vlan, &format!("vm{}", &vlan[4..]), "192.168.100.10/24").unwrap();
        let kubectl = cluster.namespace(name);
        let world = Self { kubectl, vm, vlan, files: tempfile::tempdir().unwrap(), _turn: turn };
        // Without the tuning a pod may forward between its networks, as the node does.
        world.attachment("vlan", "0", &json!([]));
        world.make_certificate();
        Some(world)
    }

    /// An attachment to the VLAN whose pods forward between their networks (`1`) or don't (`0`), and have these routes.
    pub fn attachment(&self, name: &str, forwarding: &str, routes: &Value) {
        let families = ["net.ipv4.conf.all.forwarding", "net.ipv6.conf.all.forwarding"];
        let sysctl: BTreeMap<_, _> = families.map(|family| (family, forwarding)).into();
        let config = json!({
            "cniVersion": "1.0.0", "name": self.vlan,
            "plugins": [
                {"type": "bridge", "bridge": self.vlan, "ipam": {"type": "static", "routes": routes}},
                {"type": "tuning", "sysctl": sysctl},
            ],
        });
        let attachment = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name}, "spec": {"config": config.to_string()},
        });
        self.kubectl.apply(&attachment.to_string()).ok();
    }

    /// Runs a command on the virtual machine that must succeed; its output.
    pub fn on_vm(&self, command: &str) -> String {
        finish(self.vm.command("sh").args(["-c", command])).ok()
    }

    pub fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn make_certificate(&self) {
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]);
        openssl.args(["-subj", "/CN=test", "-addext", "subjectAltName=DNS:*.example.com"]);
        openssl.args(["-keyout", &self.file("key.pem"), "-out", &self.file("cert.pem")]);
        finish(&mut openssl).ok();
    }

    /// A TLS server that says its name, as a Deployment with a Service of port 443.
    pub fn server(&self, name: &str) {
        let read = |file: &str| fs::read_to_string(self.file(file)).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"cert.pem": read("cert.pem"), "key.pem": read("key.pem")},
        });
        let container = json!({
            "name": "server", "image": IMAGE, "imagePullPolicy": "Never",
            "args": ["echo", "--listen", "0.0.0.0:8443", "--name", name,
                     "--tls-cert", "/tls/cert.pem", "--tls-key", "/tls/key.pem"],
            "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
            "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [container], "volumes": [{"name": "tls", "secret": {"secretName": name}}]},
                },
            },
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 443, "targetPort": 8443}]},
        });
        for object in [secret, deployment, service] {
            self.kubectl.apply(&object.to_string()).ok();
        }
        self.kubectl.ok(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"]);
    }

    /// An HTTP server that says its name, as a Deployment with a Service of port 80.
    pub fn http_server(&self, name: &str) {
        let container = json!({
            "name": "server", "image": IMAGE, "imagePullPolicy": "Never",
            "args": ["echo", "--listen", "0.0.0.0:8080", "--name", name],
            "ports": [{"name": "http", "containerPort": 8080}],
            // It ends at once when it is told to, and its Service still leads to it for a moment.
            "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            },
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
        });
        for object in [deployment, service] {
            self.kubectl.apply(&object.to_string()).ok();
        }
        self.kubectl.ok(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"]);
    }

    /// A ProxyServer on the VLAN: one backend, `NAME.example.com`, for every Service named.
    pub fn proxy_server(&self, name: &str, address: &str, engine: &str, services: &[&str]) -> Ran {
        let network = json!({"serverIP": address, "networkAttachmentName": "vlan"});
        self.kubectl.apply(&self.proxy_on(name, network, engine, services).to_string())
    }

    /// The same with any network.
    pub fn proxy_on(&self, name: &str, network: Value, engine: &str, services: &[&str]) -> Value {
        let backends: Vec<Value> = services.iter().map(|service| self.backend(service)).collect();
        json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": {"name": name},
            "spec": {"networkConfig": network, "engine": engine, "backends": backends},
        })
    }

    fn backend(&self, service: &str) -> Value {
        json!({
            "name": service, "hostname": format!("{service}.example.com"), "port": 443,
            "targetService": service, "targetPort": 443, "targetNamespace": self.kubectl.namespace,
        })
    }

    /// Asks from the virtual machine for a host at an address; what was answered, or why nothing was.
    pub fn ask(&self, host: &str, address: &str) -> Result<String, String> {
        let mut curl = self.vm.command("curl");
        curl.args(["--silent", "--show-error", "--max-time", "5", "--cacert", &self.file("cert.pem")]);
        curl.args(["--resolve", &format!("{host}:443:[{address}]"), &format!("https://{host}/")]);
        let ran = finish(&mut curl);
        if ran.code == Some(0) { Ok(ran.stdout) } else { Err(ran.stderr) }
    }

    /// Waits for a condition of an object.
    pub fn wait(&self, object: &str, condition: &str) {
        eventually(&format!("{object} is {condition}"), PATIENCE, || {
            let ran =
                self.kubectl.run(&["wait", object, &format!("--for=condition={condition}"), "--timeout=1s"]);
            if ran.code == Some(0) { Ok(()) } else { Err(self.kubectl.run(&["describe", object]).stdout) }
        });
    }
}
