//! One machine with teams on it, and a client who trusts its authority.

use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::server::{Server, program};
use tempfile::TempDir;

/// Two teams; the first has a service that says its name.
pub const TEAMS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: rival}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
        - name: shop
          image: causeway.dev/causeway
          args: [echo, --name, shop, --listen, "$(POD_IP):8080"]
          env:
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80, targetPort: 8080}]
"#;

pub struct World {
    pub server: Server,
    pub kubectl: Kubectl,
    pub files: TempDir,
}

impl World {
    /// `causeway up` with these arguments, and the teams.
    pub fn start(args: &[&str]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let server = Server::start_in(files.path(), args);
        let kubectl = server.kubectl();
        kubectl.apply(TEAMS).ok();
        Self { server, kubectl, files }
    }

    /// One request of team shop that is Ready, its route, and an answer.
    pub fn published(args: &[&str], hostname: &str) -> Self {
        let world = Self::start(args);
        world.kubectl.apply(&request("shop", hostname)).ok();
        world.ready("shop", "shop");
        world.kubectl.apply(&route("shop", hostname)).ok();
        world.trust();
        eventually("curl is answered by the service", PATIENCE, || {
            world.curl(hostname).stdout.starts_with("shop")
        });
        world
    }

    pub fn ready(&self, namespace: &str, name: &str) {
        let request = format!("ghr/{name}");
        self.kubectl.ok(&["wait", "-n", namespace, &request, "--for=condition=Ready", "--timeout=60s"]);
    }

    pub fn causeway(&self, args: &[&str]) -> Ran {
        finish(Command::new(program()).args(args).env("KUBECONFIG", self.server.kubeconfig()))
    }

    /// Writes what clients have to trust.
    pub fn trust(&self) {
        self.causeway(&["trust", "--file", &self.authority()]).ok();
    }

    pub fn authority(&self) -> String {
        self.files.path().join("ca.crt").display().to_string()
    }

    /// A field of an object of team shop.
    pub fn value(&self, object: &str, path: &str) -> String {
        self.kubectl.ok(&["get", "-n", "shop", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    /// Where the name of team shop's request is served.
    pub fn place(&self) -> (String, String) {
        self.place_of("shop")
    }

    /// Where the names of another request of that team are served.
    pub fn place_of(&self, request: &str) -> (String, String) {
        let gateway = self.value(&format!("ghr/{request}"), ".status.assignedGateway");
        let port = ".spec.listeners[?(@.protocol==\"HTTPS\")].port";
        let port = format!("jsonpath={{{port}}}");
        let port = self.kubectl.ok(&["get", "-n", "causeway-edge", "gateway", &gateway, "-o", &port]);
        let first = port.split_whitespace().next().unwrap_or_default().to_owned();
        (self.value(&format!("ghr/{request}"), ".status.addresses[0]"), first)
    }

    /// A client who asks for a name where team shop's is served.
    pub fn curl(&self, name: &str) -> Ran {
        let (address, port) = self.place();
        finish(&mut get(&self.authority(), name, &address, &port))
    }

    /// What is said of a request, as text.
    pub fn said(&self, namespace: &str, name: &str) -> String {
        self.kubectl.ok(&["get", "-n", namespace, "ghr", name, "-o", "jsonpath={.status.conditions}"])
    }

    /// How many objects there are of what hostnames are made of.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (kind, namespace) in [
            ("domainclaims", ""),
            ("gateways", "causeway-edge"),
            ("listenersets", "causeway-edge"),
            ("httproutes", "causeway-edge"),
            ("trafficpolicies", "causeway-edge"),
        ] {
            let found = self.kubectl.ok(&["get", kind, "-n", namespace, "-o", "name"]);
            left.extend(found.lines().map(ToOwned::to_owned));
        }
        let secrets = self.kubectl.ok(&["get", "secrets", "-n", "causeway-edge", "-o", "name"]);
        left.extend(secrets.lines().filter(|name| name.contains("hostname-")).map(ToOwned::to_owned));
        let zones =
            self.kubectl.run(&["get", "configmap", "-n", "causeway-edge", "hostnames-dns", "-o", "yaml"]);
        left.extend(zones.stdout.lines().filter(|line| line.contains("\"A\"")).map(ToOwned::to_owned));
        left
    }
}

/// curl for a name at an address.
pub fn get(authority: &str, name: &str, address: &str, port: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "5", "--cacert", authority]);
    command.args(["--resolve", &format!("{name}:{port}:{address}"), &format!("https://{name}:{port}/")]);
    command
}

pub fn request(namespace: &str, hostname: &str) -> String {
    request_in(namespace, "shop", "apps.test", hostname)
}

pub fn request_in(namespace: &str, name: &str, zone: &str, hostname: &str) -> String {
    format!(
        "apiVersion: causeway.dev/v1alpha1\nkind: GatewayHostnameRequest\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{zoneId: {zone}, hostname: '{hostname}'}}\n"
    )
}

pub fn route(namespace: &str, hostname: &str) -> String {
    route_of(
        "HTTPRoute",
        namespace,
        "shop",
        &format!("'{hostname}'"),
        "name: gw-01, namespace: causeway-edge",
    )
}

/// A route of any kind; `hostnames` are the items of a list, `parent` the fields of its reference.
pub fn route_of(kind: &str, namespace: &str, name: &str, hostnames: &str, parent: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  parentRefs: [{{{parent}}}]\n  hostnames: [{hostnames}]\n  \
         rules: [{{backendRefs: [{{name: shop, port: 80}}]}}]\n"
    )
}
