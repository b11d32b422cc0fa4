//! A peer of WireGuard that nobody here wrote, on a machine of its own outside of the cluster: it comes in with what the
//! Workstation's status says, and nothing else of ours.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::peer;
use causeway_testkit::server::program;
use serde_json::{Value, json};

use super::laptop::answers;
use super::{nothing_is_left, says};
use crate::world::{PATIENCE, World, cluster};

/// A machine on a cable to the first node, with `wireguard-go`.
struct Machine {
    name: String,
    processes: Vec<Child>,
}

fn ip(arguments: &str) {
    finish(Command::new("ip").args(arguments.split(' '))).ok();
}

impl Machine {
    fn new() -> Self {
        let name = format!("wgc{}", std::process::id());
        let (node, address) = cluster().unwrap().node_network();
        let node = node.file_name().unwrap().to_str().unwrap().to_owned();
        ip(&format!("netns add {name}"));
        let machine = Self { name: name.clone(), processes: Vec::new() };
        ip(&format!("link add {name} netns {node} type veth peer name eth0 netns {name}"));
        ip(&format!("-n {node} address add 192.0.2.1/24 dev {name}"));
        ip(&format!("-n {node} link set {name} up"));
        for command in ["link set lo up", "link set eth0 up", "address add 192.0.2.2/24 dev eth0"] {
            ip(&format!("-n {name} {command}"));
        }
        // The nodes, and nothing else.
        let [a, b, c, _] = address.octets();
        ip(&format!("-n {name} route add {a}.{b}.{c}.0/24 via 192.0.2.1"));
        machine
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).args(["--", program]).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        finish(self.command(program).args(arguments))
    }

    fn start(&mut self, program: &str, arguments: &[&str]) {
        let mut command = self.command(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(command.spawn().unwrap());
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

#[test]
fn a_peer_that_nobody_here_wrote_comes_in_and_is_reached() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if let Some(missing) = ["wireguard-go", "wg"].into_iter().find(|program| !has(program)) {
        return peer::skip(&format!("{missing}, for a real peer of WireGuard"));
    }
    let Some(world) = World::new("wireguard") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let secret = finish(Command::new("wg").arg("genkey")).ok().trim().to_owned();
    let public = {
        let mut command = Command::new("wg");
        let mut child = command.arg("pubkey").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
    };
    let workstation = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation", "metadata": {"name": "peer"},
        "spec": {"publicKey": public},
    });
    world.kubectl.apply(&workstation.to_string()).ok();
    world.wait("workstation/peer", "Ready");
    let status: Value = eventually("all of it is said", PATIENCE, || {
        let status = world.kubectl.value("workstation/peer", ".status");
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        let fields = ["address", "serverPublicKey", "endpoint", "allowedIPs"];
        if fields.iter().all(|field| !status[field].is_null()) { Ok(status) } else { Err(status.to_string()) }
    });
    let said = |field: &str| status[field].as_str().unwrap().to_owned();
    let networks: Vec<&str> =
        status["allowedIPs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();

    let mut machine = Machine::new();
    let device = machine.name.clone();
    machine.start("wireguard-go", &["--foreground", &device]);
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&key, &secret).unwrap();
    let (server, endpoint, allowed) = (said("serverPublicKey"), said("endpoint"), networks.join(","));
    let settings = [
        "set",
        &device,
        "private-key",
        key.path().to_str().unwrap(),
        "peer",
        &server,
        "endpoint",
        &endpoint,
        "allowed-ips",
        &allowed,
        "persistent-keepalive",
        "5",
    ];
    eventually("wireguard-go takes its settings", PATIENCE, || {
        let ran = machine.run("wg", &settings);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.to_string()) }
    });
    ip(&format!("-n {device} address add {}/32 dev {device}", said("address")));
    ip(&format!("-n {device} link set {device} mtu 1420 up"));
    for network in &networks {
        ip(&format!("-n {device} route add {network} dev {device}"));
    }
    // Out: a page of a Service. Nodes are not for it.
    eventually("a page is fetched", PATIENCE, || {
        let ran = machine.run("curl", &["-sS", "--max-time", "5", &format!("http://{address}/")]);
        if ran.stdout.starts_with("web") { Ok(()) } else { Err(ran.to_string()) }
    });
    world.wait("workstation/peer", "Connected");

    // In: what others ask the Service with its name.
    machine.start(program(), &["echo", "--listen", &format!("{}:3000", said("address")), "--name", "peer"]);
    let request = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest", "metadata": {"name": "me"},
        "spec": {
            "target": "deploy/web", "targetContainerPort": 8080, "workstation": "peer", "destinationPort": 3000,
            "match": [{"headers": [{"name": "x-user", "value": "peer"}]}],
        },
    });
    world.kubectl.apply(&request.to_string()).ok();
    says(&world, "me", "Ready", "Ready");
    eventually("it is reached", PATIENCE, || answers(&address, Some("peer"), "peer"));
    answers(&address, None, "web").unwrap();
    // Gone without a word.
    drop(machine);
    eventually("the original answers for it", PATIENCE, || answers(&address, Some("peer"), "web"));
    world.kubectl.ok(&["delete", "interceptrequest/me", "workstation/peer"]);
    nothing_is_left(&world);
}
