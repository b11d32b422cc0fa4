//! A cluster on this machine with a small service in it, and developers' machines.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::server::{Server, program};
use causeway_testkit::{Answer, PATIENCE};
use serde_json::Value;
use tempfile::TempDir;

/// How long a machine that dies may keep requests from the original.
pub const FALLBACK: Duration = Duration::from_secs(3);

pub struct World {
    pub server: Server,
    pub kubectl: Kubectl,
    root: TempDir,
}

/// A Deployment and a Service of this name; its pods say it at port 80, and `NAME-side` at port 81.
pub fn workload(name: &str, replicas: u8) -> String {
    format!(
        r"apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - {}
      - {}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: http}}, {{name: side, port: 81, targetPort: side}}]
",
        container(name),
        answering("side", &format!("{name}-side"), ("side", 8081)),
    )
}

/// A container that answers with a name, and lets go what is under way before it ends.
pub fn container(name: &str) -> String {
    answering("app", name, ("http", 8080))
}

fn answering(container: &str, name: &str, (port, number): (&str, u16)) -> String {
    format!(
        "{{name: {container}, image: 'causeway.dev/causeway:0.1.0', \
         args: [echo, --name, {name}, --listen, '$(POD_IP):{number}'], \
         ports: [{{name: {port}, containerPort: {number}}}], \
         env: [{{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}], \
         readinessProbe: {{tcpSocket: {{port: {number}}}, periodSeconds: 1}}, \
         lifecycle: {{preStop: {{sleep: {{seconds: 2}}}}}}}}"
    )
}

impl World {
    /// With Deployment and Service `web` in namespace `shop`.
    pub fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let server = Server::start_in(root.path(), &[]);
        let kubectl = server.namespace("shop");
        kubectl.apply(&workload("web", 2)).ok();
        kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
        Self { server, kubectl, root }
    }

    pub fn address(&self, service: &str) -> String {
        self.kubectl.value(&format!("service/{service}"), ".spec.clusterIP")
    }

    /// Kills the control plane as a power cut would, and nothing else.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    pub fn restart(&mut self) {
        self.server = Server::start_again_in(self.root.path(), &[]);
    }

    /// Waits until a condition of a request is so; what it says.
    pub fn says(&self, request: &str, condition: &str, reason: &str) -> String {
        let path = format!(".status.conditions[?(@.type==\"{condition}\")]");
        eventually(&format!("{request}: {condition} {reason}"), PATIENCE, || {
            // In one look: it may say something else in the next.
            let found = self.kubectl.value(&format!("interceptrequest/{request}"), &path);
            let found: Value = serde_json::from_str(&found).unwrap_or_default();
            let message = found["message"].as_str().unwrap_or_default().to_owned();
            if found["reason"] == reason { Ok(message) } else { Err(found.to_string()) }
        })
    }
}

/// A developer's machine: a directory of its own, and a program that says its name.
pub struct Laptop {
    name: &'static str,
    kubeconfig: PathBuf,
    home: TempDir,
    pub port: u16,
    local: Option<Child>,
}

impl Laptop {
    /// One that is connected, with a program that answers with its name.
    pub fn connected(world: &World, name: &'static str) -> Self {
        let laptop = Self::new(world, name);
        laptop.causeway(&["connect", "--name", name]).ok();
        laptop
    }

    pub fn new(world: &World, name: &'static str) -> Self {
        let port = causeway_testkit::port::free();
        let mut laptop = Self {
            name,
            kubeconfig: world.server.kubeconfig(),
            home: tempfile::tempdir().unwrap(),
            port,
            local: None,
        };
        laptop.start_program();
        laptop
    }

    pub fn start_program(&mut self) {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut command = Command::new(program());
        command.args(["echo", "--name", self.name, "--listen", &listen]);
        self.local = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let at = ("127.0.0.1", self.port);
        eventually("the local program listens", PATIENCE, || std::net::TcpStream::connect(at).is_ok());
    }

    pub fn stop_program(&mut self) {
        if let Some(mut local) = self.local.take() {
            let _ = local.kill();
            let _ = local.wait();
        }
    }

    /// In namespace `shop`.
    pub fn causeway(&self, args: &[&str]) -> Ran {
        let mut all = vec![args[0], "-n", "shop"];
        all.extend(&args[1..]);
        self.run(&all)
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(program());
        command
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("CAUSEWAY_DATA_DIR", self.home.path().join("data"))
            .env("USER", self.name)
            .env("HOME", self.home.path())
            .env_remove("CAUSEWAY_LOG")
            .stdin(Stdio::null());
        finish(&mut command)
    }

    /// Takes traffic of a workload to the local program.
    pub fn intercept(&self, target: &str, port: &str, args: &[&str]) -> Ran {
        let pair = format!("{}:{port}", self.port);
        let mut all = vec!["intercept", target, "--port", &pair];
        all.extend(args);
        self.causeway(&all)
    }

    /// The state of its connection.
    pub fn connection(&self) -> Value {
        let ran = self.run(&["connections", "-o", "json"]);
        let answer: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
        answer["connections"][0].clone()
    }

    /// One of the keys that never leave it.
    pub fn key(&self, name: &str) -> String {
        let mut places = vec![self.home.path().to_owned()];
        while let Some(place) = places.pop() {
            for entry in place.read_dir().unwrap().map(Result::unwrap) {
                if entry.file_name() == name {
                    return std::fs::read_to_string(entry.path()).unwrap();
                }
                places.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
            }
        }
        panic!("there is no {name}")
    }

    /// Kills its daemon, as a power cut would.
    pub fn die(&self) {
        let pid = self.connection()["pid"].as_u64().expect("a daemon runs");
        causeway_testkit::server::signal(u32::try_from(pid).unwrap(), "KILL");
    }
}

/// Kills a machine's daemon, and waits for the original to answer in its place, in no more time than that may take.
pub fn died<A: Answer>(laptop: &Laptop, mut is_back: impl FnMut() -> A) {
    laptop.die();
    let since = Instant::now();
    eventually("the original answers", PATIENCE, &mut is_back);
    assert!(since.elapsed() < FALLBACK, "after {:?}", since.elapsed());
}

impl Drop for Laptop {
    fn drop(&mut self) {
        self.run(&["disconnect", "--all", "--force"]);
        self.stop_program();
    }
}
