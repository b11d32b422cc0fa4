//! A cluster on this machine with a small service in it, and a developer's machine with a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::server::{Server, program};
use serde_json::Value;
use tempfile::TempDir;

/// A namespace with Deployment and Service `web`, and whose answers say so.
pub const WEB: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {team: shop}}
    spec:
      containers:
      - name: app
        image: causeway.dev/causeway:0.1.0
        args: [echo, --name, web, --listen, $(POD_IP):8080]
        ports: [{name: http, containerPort: 8080}]
        env:
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: GREETING, value: hello}
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: web, key: password}}}
        envFrom: [{configMapRef: {name: web}}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
        volumeMounts:
        - {name: conf, mountPath: /etc/web}
        - {name: keys, mountPath: /etc/keys}
        - {name: about, mountPath: /etc/about}
        - {name: data, mountPath: /data}
      volumes:
      - {name: conf, configMap: {name: web}}
      - {name: keys, secret: {secretName: web}}
      - {name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
      - {name: data, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {MODE: "test", greeting.txt: "hello\nworld\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {password: "it's secret"}
"#;

pub struct World {
    pub server: Server,
    pub kubectl: Kubectl,
    /// Where the cluster is, which may be started again there.
    pub root: TempDir,
    laptop: TempDir,
}

impl World {
    /// With the service in namespace `shop`.
    pub fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let server = Server::start_in(root.path(), &[]);
        let kubectl = server.namespace("shop");
        kubectl.apply(WEB).ok();
        kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
        Self { server, kubectl, root, laptop: tempfile::tempdir().unwrap() }
    }

    /// The laptop's data directory.
    pub fn data(&self) -> PathBuf {
        self.laptop.path().join("data")
    }

    /// A file on the laptop.
    pub fn file(&self, name: &str) -> PathBuf {
        self.laptop.path().join(name)
    }

    /// A command on the laptop, in namespace `shop`.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_as(&self.server.kubeconfig(), args)
    }

    /// The same, as somebody else.
    pub fn command_as(&self, kubeconfig: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            .env("CAUSEWAY_DATA_DIR", self.data())
            .env("USER", "alice")
            .env("HOME", self.laptop.path())
            .env_remove("CAUSEWAY_LOG")
            .stdin(Stdio::null());
        command
    }

    pub fn causeway(&self, args: &[&str]) -> Ran {
        finish(&mut self.in_shop(args))
    }

    /// In namespace `shop`, with the flag before a command that follows `--`.
    fn in_shop(&self, args: &[&str]) -> Command {
        let mut all = vec![args[0], "-n", "shop"];
        all.extend(&args[1..]);
        self.command(&all)
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let mut all = vec![args[0], "-o", "json"];
        all.extend(&args[1..]);
        let ran = self.causeway(&all);
        assert_eq!(ran.code, Some(0), "{ran}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
    }

    pub fn connect(&self, args: &[&str]) -> Value {
        let mut all = vec!["connect"];
        all.extend(args);
        self.json(&all)
    }

    /// Starts a command that goes on.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.in_shop(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The connections of the laptop.
    pub fn connections(&self) -> Vec<Value> {
        let ran = finish(&mut self.command(&["connections", "-o", "json"]));
        let answer: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
        answer["connections"].as_array().unwrap().clone()
    }

    /// The process of the only connection.
    pub fn daemon(&self) -> u32 {
        u32::try_from(self.connections()[0]["pid"].as_u64().expect("a daemon runs")).unwrap()
    }

    /// The address of the Service.
    pub fn service(&self) -> String {
        self.kubectl.value("service/web", ".spec.clusterIP")
    }

    /// Who answers a request to the Service with these headers.
    pub fn ask(&self, headers: &[&str]) -> String {
        ask(&format!("http://{}/", self.service()), headers)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever a test left, no process of it goes on.
        let _ = finish(&mut self.command(&["disconnect", "--all", "--force"]));
    }
}

/// The first line of an answer, or the code of a failure.
pub fn ask(url: &str, headers: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "--max-time",
        "5",
        "--write-out",
        "\n%{http_code}",
    ]);
    for header in headers {
        curl.args(["-H", header]);
    }
    let ran = finish(curl.arg(url));
    match ran.stdout.lines().last() {
        Some("200") => ran.stdout.lines().next().unwrap_or_default().to_owned(),
        Some(code) => format!("{code} {}", ran.stderr.trim()),
        None => ran.stderr,
    }
}

/// A program on the laptop that answers with its name; it ends with the value.
pub struct LocalProgram {
    child: Child,
    pub port: u16,
}

impl LocalProgram {
    pub fn start(name: &str) -> Self {
        let port = causeway_testkit::port::free();
        let mut this = Self { child: Self::spawn(name, port), port };
        this.wait();
        this
    }

    fn spawn(name: &str, port: u16) -> Child {
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(program());
        command
            .args(["echo", "--name", name, "--listen", &listen])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn wait(&mut self) {
        let at = ("127.0.0.1", self.port);
        eventually("the local program listens", PATIENCE, || std::net::TcpStream::connect(at).is_ok());
    }
}

impl Drop for LocalProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process is there.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// How long a laptop that dies may keep requests from the original.
pub const FALLBACK: Duration = Duration::from_secs(3);
