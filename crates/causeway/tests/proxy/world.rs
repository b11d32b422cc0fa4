//! A control plane, a namespace with Services made by hand, and proxies as child processes.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::server::{Server, program, signal};
use serde_json::{Value, json};

use crate::peer::{TlsBackend, get};

pub const NAMESPACE: &str = "crossing";
pub const PORT: u16 = 8443;

/// The surroundings of one test.
pub struct World {
    pub root: tempfile::TempDir,
    pub server: Server,
    pub address: IpAddr,
}

impl World {
    pub fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(10);
        let root = tempfile::tempdir().unwrap();
        let server = Server::start_in(root.path(), &["--no-node", "--no-operator"]);
        server.namespace(NAMESPACE);
        // Other test programs may run at the same time: the process id keeps their addresses apart.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, high | 1, low, NEXT.fetch_add(1, Ordering::Relaxed));
        Self { root, server, address: address.into() }
    }

    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.server.kubeconfig(), &self.root.path().join("home"), NAMESPACE)
    }

    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }

    /// A Service of port 443 with one endpoint.
    pub fn service(&self, name: &str, backend: &TlsBackend) {
        Self::service_in(&self.kubectl(), name, backend);
    }

    /// The same in the namespace that `kubectl` works in.
    pub fn service_in(kubectl: &Kubectl, name: &str, backend: &TlsBackend) {
        Self::service_at(kubectl, name, backend.address);
    }

    /// The same for whatever is at this address.
    pub fn service_at(kubectl: &Kubectl, name: &str, backend: SocketAddr) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": backend.port()}]},
        });
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "https", "port": backend.port(), "protocol": "TCP"}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        });
        kubectl.apply(&service.to_string()).ok();
        kubectl.apply(&slice.to_string()).ok();
    }

    /// Writes the object with these backends.
    pub fn proxy_server(&self, backends: &[Value]) -> Ran {
        let object = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": {"name": "edge"},
            "spec": {"networkConfig": {"serverIP": self.address.to_string()}, "backends": backends,
                     "drainSeconds": 20, "engine": "Native"},
        });
        self.kubectl().apply(&object.to_string())
    }

    /// What the proxy says of itself.
    pub fn replica(&self) -> Value {
        let text = self.kubectl().ok(&["get", "proxyserver", "edge", "-o", "json"]);
        let object: Value = serde_json::from_str(&text).unwrap();
        let replicas = object["status"]["replicas"].as_array().cloned().unwrap_or_default();
        replicas.into_iter().find(|r| r["name"] == "edge-0").unwrap_or_default()
    }

    /// Starts a control plane in the place of one that was killed, on the same port.
    pub fn revive(&self) -> Revived {
        let listen = self.server.url().replace("https://", "");
        let child = Command::new(program())
            .args(["up", "--no-node", "--no-operator", "--listen", &listen, "--data-dir"])
            .arg(self.server.data_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let revived = Revived(child);
        eventually("the control plane answers again", PATIENCE, || {
            self.kubectl().run(&["get", "namespaces"]).code == Some(0)
        });
        revived
    }

    /// Runs a command of the program against this control plane.
    pub fn causeway(&self, args: &[&str]) -> Ran {
        finish(Command::new(program()).args(args).env("KUBECONFIG", self.server.kubeconfig()))
    }

    /// Starts a proxy without waiting.
    pub fn launch(&self) -> Proxy {
        self.launch_with(&[])
    }

    /// The same, with further arguments.
    pub fn launch_with(&self, args: &[&str]) -> Proxy {
        let log = self.root.path().join("proxy.log");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new(program())
            .args(["proxy", "--namespace", NAMESPACE, "--proxy-name", "edge", "--pod-name", "edge-0"])
            .args(["--pod-ip", &self.address.to_string(), "--workers", "2", "--state-dir"])
            .arg(self.root.path().join("state"))
            .args(args)
            .env("KUBECONFIG", self.server.kubeconfig())
            .env_remove("CAUSEWAY_LOG")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Proxy { child, log, health: self.at(8080) }
    }

    /// Starts a proxy and waits until it is ready.
    pub fn start(&self) -> Proxy {
        let proxy = self.launch();
        proxy.wait_ready();
        proxy
    }
}

/// A control plane after its crash.
pub struct Revived(Child);

impl Drop for Revived {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A backend entry of the object.
pub fn backend(name: &str, hostname: &str) -> Value {
    json!({
        "name": name, "hostname": hostname, "port": PORT,
        "targetService": name, "targetPort": 443, "targetNamespace": NAMESPACE,
    })
}

/// A running `causeway proxy`.
pub struct Proxy {
    pub child: Child,
    log: PathBuf,
    health: SocketAddr,
}

impl Proxy {
    pub fn wait_ready(&self) {
        eventually("the proxy is ready", PATIENCE, || matches!(get(self.health, "/ready"), Ok((200, _))));
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn terminate(&self) {
        signal(self.child.id(), "TERM");
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end.
    pub fn wait_end(&mut self, limit: Duration) -> i32 {
        let mut code = None;
        eventually("the proxy ends", limit, || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the proxy\n{}", self.log());
        }
        self.kill();
    }
}
