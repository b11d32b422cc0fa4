//! Developers on a real Kubernetes: machines outside of the cluster that connect, take requests of a workload, and go. Their
//! machine is the first node's network, seen from outside of all pods.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::kubernetes::Kubernetes;
use causeway_testkit::server::program;
use serde_json::Value;

use crate::world::{PATIENCE, World, cluster};

/// How long the target's traffic may take to come back from a laptop that is gone.
const FALLBACK: Duration = Duration::from_secs(3);

/// A developer's machine with a data directory of its own and a program that says its name.
struct Laptop {
    name: &'static str,
    namespace: String,
    home: tempfile::TempDir,
    port: u16,
    local: Child,
}

impl Laptop {
    fn new(world: &World, name: &'static str, port: u16) -> Self {
        let mut echo = cluster().unwrap().on_node(program());
        echo.args(["echo", "--listen", &format!("127.0.0.1:{port}"), "--name", name]);
        let local = echo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let namespace = world.kubectl.namespace.clone();
        Self { name, namespace, home: tempfile::tempdir().unwrap(), port, local }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = cluster().unwrap().on_node(program());
        command.args(arguments);
        // All connections of a machine are shown or ended, wherever they lead.
        if !matches!(arguments, ["connections", ..] | ["disconnect", "--all", ..]) {
            command.args(["--namespace", &self.namespace]);
        }
        // That of the cluster's own network, not the one for this process.
        command.env("KUBECONFIG", Kubernetes::kubeconfig(cluster().unwrap()));
        command.env("CAUSEWAY_DATA_DIR", self.home.path()).env("HOME", self.home.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    fn connect(&self, way: &str) -> Value {
        let connected = self.run(&["connect", "--name", self.name, "--way", way, "-o", "json"]).ok();
        serde_json::from_str(&connected).unwrap()
    }

    fn connections(&self) -> Value {
        serde_json::from_str(&self.run(&["connections", "-o", "json"]).ok()).unwrap()
    }

    /// Takes what has its name in a header.
    fn intercept(&self, target: &str) -> Ran {
        let (port, header) = (format!("{}:8080", self.port), format!("x-user={}", self.name));
        self.run(&["intercept", target, "--port", &port, "--header", &header])
    }

    /// Ends its daemon as a power cut would.
    fn kill(&self) {
        let pid = self.connections()["connections"][0]["pid"].as_i64().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        self.run(&["disconnect", "--all", "--force"]);
        let _ = self.local.kill();
        let _ = self.local.wait();
    }
}

/// Asks the Service, with a user in the header or with none; who answered.
fn ask(address: &str, user: Option<&str>) -> Result<String, String> {
    let mut curl = cluster().unwrap().on_node("curl");
    curl.args(["-sS", "-m", "5", "-w", "%{http_code}", &format!("http://{address}/")]);
    if let Some(user) = user {
        curl.args(["-H", &format!("X-User: {user}")]);
    }
    let ran = finish(&mut curl);
    match ran.code {
        Some(0) if ran.stdout.ends_with("200") => Ok(ran.stdout),
        _ => Err(format!("{}{}", ran.stdout, ran.stderr)),
    }
}

fn answers(address: &str, user: Option<&str>, by: &str) -> Result<(), String> {
    let answer = ask(address, user)?;
    if answer.contains(by) { Ok(()) } else { Err(answer) }
}

#[test]
fn two_developers_share_a_workload_and_nothing_is_left_of_them() {
    let Some(world) = World::new("intercepts") else { return };
    world.http_server("web");
    let before = world.kubectl.value("service/web", ".spec.selector");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");

    let (ada, bob) = (Laptop::new(&world, "ada", 13_001), Laptop::new(&world, "bob", 13_002));
    let since = Instant::now();
    let connected = ada.connect("link");
    println!("connected {:.1?} after the first Workstation: {connected}", since.elapsed());
    let since = Instant::now();
    ada.intercept("deploy/web").ok();
    println!("active after {:.1?}", since.elapsed());
    answers(&address, Some("ada"), "ada").unwrap();
    answers(&address, None, "web").unwrap();

    // The second one comes through the API server, and the first one is not touched.
    bob.connect("port-forward");
    bob.intercept("deployment/web").ok();
    eventually("the second developer's requests arrive", PATIENCE, || answers(&address, Some("bob"), "bob"));
    answers(&address, Some("ada"), "ada").unwrap();
    // What can't be told apart is refused, with both names.
    let wide = [
        "intercept",
        "deploy/web",
        "--port",
        "13002:8080",
        "--path",
        "/x*",
        "--name",
        "wide",
        "--timeout",
        "20",
    ];
    let overlapping = bob.run(&wide);
    assert!(overlapping.code != Some(0) && overlapping.stderr.contains("web-8080-ada"), "{overlapping}");
    world.kubectl.run(&["delete", "interceptrequest", "wide", "--ignore-not-found"]).ok();

    // A rollout and more replicas while it is intercepted.
    world.kubectl.ok(&["rollout", "restart", "deployment/web"]);
    world.kubectl.ok(&["scale", "deployment/web", "--replicas=2"]);
    world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    answers(&address, Some("ada"), "ada").unwrap();

    // A laptop that dies.
    ada.kill();
    let since = Instant::now();
    eventually("the original answers for it", PATIENCE, || answers(&address, Some("ada"), "web"));
    println!("the original answered {:.1?} after the laptop died", since.elapsed());
    assert!(since.elapsed() < FALLBACK, "{:.1?}", since.elapsed());
    answers(&address, Some("bob"), "bob").unwrap();
    ada.connect("link");
    eventually("it is back", PATIENCE, || answers(&address, Some("ada"), "ada"));

    // The cluster's end and the operator die.
    let system = ["-n", "causeway-system"];
    world.kubectl.ok(&[&["delete", "pods", "-l", "app=stowaway", "--wait=false"], &system[..]].concat());
    world
        .kubectl
        .ok(&[&["delete", "pods", "-l", "app=causeway-operator", "--wait=false"], &system[..]].concat());
    eventually("both are back", PATIENCE, || {
        answers(&address, Some("ada"), "ada").and_then(|()| answers(&address, Some("bob"), "bob"))
    });

    for laptop in [&ada, &bob] {
        laptop.run(&["leave", "--all"]).ok();
        laptop.run(&["disconnect"]).ok();
    }
    answers(&address, Some("ada"), "web").unwrap();
    assert_eq!(world.kubectl.value("service/web", ".spec.selector"), before);
    assert_eq!(world.kubectl.value("service/web", ".metadata.annotations.causeway\\.dev/original"), "");
    eventually("nothing is left", PATIENCE, || {
        let mut left =
            world.kubectl.ok(&["get", "pods,deployments,services", "-l", "app=carrier", "-o", "name"]);
        left += &world.kubectl.ok(&["get", "workstations,interceptrequests", "-o", "name"]);
        left += &world.kubectl.ok(&[
            &["get", "deployments,services", "-l", "app=stowaway", "-o", "name"],
            &system[..],
        ]
        .concat());
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}
