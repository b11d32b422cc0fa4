//! A control plane on this machine with TLS servers behind Services, and proxies on isolated networks.

use std::process::Command;
use std::time::Duration;
use std::{fs, path::Path};

use causeway_testkit::blocking::eventually;
use causeway_testkit::envoy;
use causeway_testkit::kubectl::{Kubectl, finish};
use causeway_testkit::server::Server;
use serde_json::{Value, json};

use crate::lan;

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);
const IMAGE: &str = "causeway.dev/causeway:0.1.0";

pub struct World {
    pub server: Server,
    pub kubectl: Kubectl,
    /// Data directory and certificates.
    pub files: tempfile::TempDir,
}

impl World {
    /// None where networks can't be made.
    pub fn new() -> Option<Self> {
        if !lan::leave_machine() {
            return None;
        }
        let files = tempfile::tempdir().unwrap();
        make_certificate(files.path());
        let server = start_with(|args| Server::start_in(files.path(), args));
        let kubectl = server.trusted_namespace("edge");
        Some(Self { server, kubectl, files })
    }

    /// Starts the control plane again, on the same directory.
    pub fn restart(&mut self) {
        self.server = start_with(|args| Server::start_again_in(self.files.path(), args));
    }

    pub fn certificate(&self) -> String {
        self.files.path().join("cert.pem").display().to_string()
    }

    /// An attachment with this CNI configuration.
    pub fn attachment(&self, name: &str, config: &Value) {
        let attachment = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name}, "spec": {"config": config.to_string()},
        });
        self.kubectl.apply(&attachment.to_string()).ok();
    }

    /// An attachment to a bridge.
    pub fn bridge(&self, name: &str, bridge: &str) {
        let plugins = json!([
            {"type": "bridge", "bridge": bridge, "ipam": {"type": "static"}},
            {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}},
        ]);
        self.attachment(name, &json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins}));
    }

    /// A TLS server that says its name, as a Deployment with a Service of port 443.
    pub fn tls_server(&self, name: &str) {
        let read = |file: &str| fs::read_to_string(self.files.path().join(file)).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"cert.pem": read("cert.pem"), "key.pem": read("key.pem")},
        });
        let container = json!({
            "name": "server", "image": IMAGE,
            "args": ["echo", "--listen", "$(POD_IP):8443", "--name", name,
                     "--tls-cert", "/tls/cert.pem", "--tls-key", "/tls/key.pem"],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
            "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        });
        let pod =
            json!({"containers": [container], "volumes": [{"name": "tls", "secret": {"secretName": name}}]});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}},
                     "template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
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

    /// A ProxyServer on a network: one backend, `NAME.example.com`, for every Service named.
    pub fn proxy_server(&self, name: &str, network: &str, address: &str, engine: &str, services: &[&str]) {
        let backend = |service: &&str| {
            json!({"name": service, "hostname": format!("{service}.example.com"), "port": 443,
                   "targetService": service, "targetPort": 443, "targetNamespace": "edge"})
        };
        let backends: Vec<Value> = services.iter().map(backend).collect();
        let proxy = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": {"name": name},
            "spec": {"networkConfig": {"serverIP": address, "networkAttachmentName": network},
                     "engine": engine, "backends": backends},
        });
        self.kubectl.apply(&proxy.to_string()).ok();
    }

    /// Waits for a condition of an object.
    pub fn wait(&self, object: &str, condition: &str) {
        eventually(&format!("{object} is {condition}"), PATIENCE, || {
            let ran =
                self.kubectl.run(&["wait", object, &format!("--for=condition={condition}"), "--timeout=1s"]);
            if ran.code == Some(0) {
                Ok(())
            } else {
                Err(self.kubectl.run(&["describe", object, "pods"]).stdout)
            }
        });
    }

    /// One value of the only pod of a proxy; empty if it has none.
    pub fn pod_of(&self, proxy: &str, path: &str) -> String {
        let label = format!("causeway.dev/owner-name={proxy}");
        self.kubectl.ok(&["get", "pods", "-l", &label, "-o", &format!("jsonpath={{.items[*]{path}}}")])
    }
}

fn start_with(start: impl FnOnce(&[&str]) -> Server) -> Server {
    let envoy = envoy::program().map(|path| format!("envoyproxy/envoy={}", path.display()));
    let mut args = Vec::new();
    if let Some(envoy) = &envoy {
        args.extend(["--program", envoy]);
    }
    start(&args)
}

fn make_certificate(directory: &Path) {
    let file = |name: &str| directory.join(name).display().to_string();
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
    openssl.args(["-subj", "/CN=test", "-addext", "subjectAltName=DNS:*.example.com,DNS:*.lab.example.com"]);
    openssl.args(["-keyout", &file("key.pem"), "-out", &file("cert.pem")]);
    finish(&mut openssl).ok();
}
