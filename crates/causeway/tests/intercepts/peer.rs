//! A peer of WireGuard that nobody here wrote, in a network of its own: `wireguard-go` with the kernel's TCP. It knows what the status
//! of its Workstation says, and nothing else of ours. On one machine and on a cluster.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::peer;
use causeway_testkit::server::program;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// A network namespace that ends with the value, as all that runs in it.
pub struct Machine {
    /// Of the namespace, and of the device in it.
    pub name: String,
    secret: NamedTempFile,
    processes: Vec<Child>,
}

/// Whether a test has to do without one, which it then says.
pub fn is_missing() -> bool {
    let has = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    let missing = ["ip", "nsenter", "wireguard-go", "wg"].into_iter().find(|program| !has(program));
    let is_root = || finish(Command::new("id").arg("-u")).stdout.trim() == "0";
    let missing = missing.or_else(|| (!is_root()).then_some("root"));
    if let Some(missing) = missing {
        peer::skip(&format!("{missing}, for a real peer of WireGuard"));
    }
    missing.is_some()
}

pub fn ip(arguments: &str) {
    finish(Command::new("ip").args(arguments.split(' '))).ok();
}

impl Machine {
    /// One with a key of its own, whose name begins like this.
    pub fn new(prefix: &str) -> Self {
        let name = format!("{prefix}{}", std::process::id());
        ip(&format!("netns add {name}"));
        let mut secret = NamedTempFile::new().unwrap();
        secret.write_all(finish(Command::new("wg").arg("genkey")).ok().as_bytes()).unwrap();
        let machine = Self { name, secret, processes: Vec::new() };
        ip(&format!("-n {} link set lo up", machine.name));
        machine
    }

    /// Makes its Workstation, and waits for what it is told.
    pub fn register(&self, kubectl: &Kubectl, patience: Duration) -> Value {
        let secret = self.secret.reopen().unwrap();
        let public = finish(Command::new("wg").arg("pubkey").stdin(secret)).ok();
        let workstation = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation", "metadata": {"name": "peer"},
            "spec": {"publicKey": public.trim()},
        });
        kubectl.apply(&workstation.to_string()).ok();
        eventually("all of it is said", patience, || {
            let status = kubectl.value("workstation/peer", ".status");
            let status: Value = serde_json::from_str(&status).unwrap_or_default();
            let fields = ["address", "serverPublicKey", "endpoint", "allowedIPs"];
            let is_all = fields.iter().all(|field| !status[field].is_null());
            if is_all { Ok(status) } else { Err(status.to_string()) }
        })
    }

    /// Brings the tunnel up by what the status says.
    pub fn join(&mut self, status: &Value, patience: Duration) {
        let said = |field: &str| status[field].as_str().unwrap();
        let networks: Vec<&str> =
            status["allowedIPs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let name = self.name.clone();
        // What is on the loopback of this machine is not reached from its own network, which then has the device and nothing else.
        let is_outside = said("endpoint").starts_with("127.");
        let at = |this: &Self, program: &str| {
            if is_outside { Command::new(program) } else { this.inside(program) }
        };
        let mut wireguard = at(self, "wireguard-go");
        self.start(wireguard.args(["--foreground", &name]));
        let key = self.secret.path().to_str().unwrap();
        let allowed = networks.join(",");
        let own = ["set", &name, "private-key", key, "peer", said("serverPublicKey")];
        let way = ["endpoint", said("endpoint"), "allowed-ips", &allowed, "persistent-keepalive", "5"];
        eventually("wireguard-go takes its settings", patience, || {
            let ran = finish(at(self, "wg").args(own).args(way).stdin(Stdio::null()));
            if ran.code == Some(0) { Ok(()) } else { Err(ran.to_string()) }
        });
        if is_outside {
            ip(&format!("link set {name} netns {name}"));
        }
        ip(&format!("-n {name} address add {}/32 dev {name}", said("address")));
        ip(&format!("-n {name} link set {name} mtu 1420 up"));
        for network in &networks {
            if network.starts_with("127.") {
                // Linux has a route to all of its loopback in table `local`: a narrower one beside it counts first.
                let localnet = format!("echo 1 > /proc/sys/net/ipv4/conf/{name}/route_localnet");
                self.run("sh", &["-c", &localnet]).ok();
                ip(&format!("-n {name} route add {network} dev {name} table local"));
            } else {
                ip(&format!("-n {name} route add {network} dev {name}"));
            }
        }
    }

    /// A program in its network.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).args(["--", program]).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        finish(self.inside(program).args(arguments))
    }

    fn start(&mut self, command: &mut Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(command.spawn().unwrap());
    }

    /// Waits until it has a page of a Service with this name on it.
    pub fn fetches(&self, address: &str, name: &str, patience: Duration) {
        let url = format!("http://{address}/");
        eventually("a page is fetched", patience, || {
            let ran = self.run("curl", &["-sS", "--noproxy", "*", "--max-time", "5", &url]);
            if ran.stdout.starts_with(name) { Ok(()) } else { Err(ran.to_string()) }
        });
    }

    /// Starts a program that says `peer` to whoever is led to port 3000, and asks for the requests to Deployment `web` that are for it.
    pub fn intercept(&mut self, kubectl: &Kubectl, status: &Value) {
        let listen = format!("{}:3000", status["address"].as_str().unwrap());
        let mut echo = self.inside(program());
        self.start(echo.args(["echo", "--listen", &listen, "--name", "peer"]));
        let request = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest", "metadata": {"name": "me"},
            "spec": {
                "target": "deploy/web", "targetContainerPort": 8080, "workstation": "peer", "destinationPort": 3000,
                "match": [{"headers": [{"name": "x-user", "value": "peer"}]}],
            },
        });
        kubectl.apply(&request.to_string()).ok();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
        let _ = std::fs::remove_file(format!("/var/run/wireguard/{}.sock", self.name));
    }
}
