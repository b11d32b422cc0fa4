//! What becomes of attached pods when the control plane is killed, and what is left of them at their end.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{Server, program, signal};
use serde_json::json;

use crate::lan::{self, Lan, Vm, has_link, ip};
use crate::world::{PATIENCE, World};

/// The namespaces and interfaces that pods of this machine have.
pub fn made() -> (Vec<String>, Vec<String>) {
    let namespaces = ip("netns list");
    let namespaces = namespaces.lines().filter_map(|line| line.split_whitespace().next());
    let links = ip("-br link");
    let links = links.lines().filter_map(|line| line.split(['@', ' ']).next());
    (
        namespaces.filter(|name| name.starts_with("causeway-")).map(str::to_owned).collect(),
        links.filter(|name| name.starts_with("cw")).map(str::to_owned).collect(),
    )
}

/// Whether nothing of a pod is left.
pub fn is_gone(uid: &str) -> Result<(), String> {
    let (namespaces, links) = made();
    let digits: String = uid.chars().filter(char::is_ascii_alphanumeric).take(10).collect();
    let left: Vec<_> =
        namespaces.iter().chain(&links).filter(|name| name.contains(uid) || name.contains(&digits)).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
}

#[test]
fn pods_outlive_the_control_plane_and_leave_nothing() {
    let Some(mut world) = World::new() else { return };
    world.tls_server("shop");
    // The bridge is made by the first pod on it.
    let bridge = lan::name();
    world.bridge("lan", &bridge);
    world.proxy_server("edge", "lan", "192.168.100.4/24", "Native", &["shop"]);
    world.wait("proxyserver/edge", "Ready");
    let vm = Vm::on(&bridge, Some("192.168.100.10/24"));
    let certificate = world.certificate();
    let ask = || vm.ask("shop.example.com", "192.168.100.4", &certificate);
    ask().unwrap();
    let uid = world.pod_of("edge", ".metadata.uid");
    assert!(is_gone(&uid).is_err(), "there is something to be removed");

    // The machine itself is not on the network, whatever a virtual machine takes for its neighbour.
    ip("address add 10.99.0.1 dev lo");
    let own = UdpSocket::bind("10.99.0.1:0").unwrap();
    own.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    finish(vm.command("ip").args(["address", "add", "10.99.0.2/24", "dev", "eth0"])).ok();
    let shout = format!("echo hello > /dev/udp/10.99.0.1/{}", own.local_addr().unwrap().port());
    finish(vm.command("bash").args(["-c", &shout])).ok();
    own.recv(&mut [0; 9]).unwrap_err();

    // Killed and started again: the pod is the same, serves meanwhile, and hears of edits afterwards.
    world.server.kill();
    ask().unwrap();
    world.restart();
    world.tls_server("mail");
    world.proxy_server("edge", "lan", "192.168.100.4/24", "Native", &["shop", "mail"]);
    eventually("an edit is heard of", PATIENCE, || vm.ask("mail.example.com", "192.168.100.4", &certificate));
    world.wait("proxyserver/edge", "Ready");
    assert_eq!(world.pod_of("edge", ".metadata.uid"), uid);
    assert_eq!(world.pod_of("edge", ".status.containerStatuses[0].restartCount"), "0");

    // The process is killed: the next one is in the same namespace.
    let pid = ip(&format!("netns pids causeway-{uid}"));
    signal(pid.trim().parse().unwrap(), "KILL");
    eventually("it serves again", PATIENCE, || ask().map(drop));
    assert_eq!(world.pod_of("edge", ".metadata.uid"), uid);

    // The same after somebody has removed the namespace.
    let pid = ip(&format!("netns pids causeway-{uid}"));
    ip(&format!("netns delete causeway-{uid}"));
    signal(pid.trim().parse().unwrap(), "KILL");
    eventually("it serves again", PATIENCE, || ask().map(drop));
    assert_eq!(world.pod_of("edge", ".metadata.uid"), uid);

    // A pod that replaces it has the address, and nothing is left of the old one.
    world.kubectl.ok(&["delete", "pod", "-l", "causeway.dev/owner-name=edge"]);
    is_gone(&uid).unwrap();
    eventually("the next pod serves", PATIENCE, || ask().map(drop));

    // Stopped: nothing is left, and the next start makes it anew. The virtual machine keeps its bridge.
    let next = world.pod_of("edge", ".metadata.uid");
    world.server.stop();
    is_gone(&next).unwrap();
    assert!(has_link(&bridge), "somebody else uses it");
    world.restart();
    eventually("the pod serves again", PATIENCE, || ask().map(drop));
    world.kubectl.ok(&["delete", "proxyserver", "edge", "--timeout=60s"]);
    eventually("nothing is left", PATIENCE, || is_gone(&next));
    drop(vm);
    world.server.stop();
    assert!(!has_link(&bridge), "the bridge goes when nobody uses it");
}

#[test]
fn a_bridge_that_goes_is_told_and_one_that_comes_back_is_used() {
    let Some(world) = World::new() else { return };
    world.tls_server("shop");
    let lan = Lan::new();
    let bridge = &lan.name;
    ip(&format!("link set {bridge} down"));
    world.bridge("lan", bridge);
    world.proxy_server("edge", "lan", "192.168.100.4/24", "Native", &["shop"]);
    let vm = Vm::on(bridge, Some("192.168.100.10/24"));
    let certificate = world.certificate();
    let serves = || {
        world.wait("proxyserver/edge", "Ready");
        eventually("the virtual machine reaches it", PATIENCE, || {
            vm.ask("shop.example.com", "192.168.100.4", &certificate)
        });
    };
    let is_told = || {
        world.wait("proxyserver/edge", "Ready=False");
        let trouble = world.kubectl.value("proxyserver/edge", ".status.replicas[0].trouble");
        assert!(trouble.contains("net1, the interface of 192.168.100.4, has no carrier"), "{trouble}");
    };
    // It was switched on.
    serves();
    ip(&format!("link set {bridge} down"));
    is_told();
    ip(&format!("link set {bridge} up"));
    serves();
    ip(&format!("link delete {bridge}"));
    is_told();
    ip(&format!("link add {bridge} type bridge"));
    ip(&format!("link set {bridge} up"));
    ip(&format!("link set {} master {bridge}", vm.port()));
    serves();
}

#[test]
fn what_was_left_is_cleaned() {
    let Some(mut world) = World::new() else { return };
    let bridge = lan::name();
    world.bridge("lan", &bridge);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "left", "annotations": {
            "k8s.v1.cni.cncf.io/networks": r#"[{"name":"lan","ips":["192.168.100.4/24"]}]"#,
        }},
        "spec": {"containers": [{
            "name": "main", "image": "causeway.dev/causeway", "args": ["echo", "--listen", "192.168.100.4:80"],
        }]},
    });
    world.kubectl.apply(&pod.to_string()).ok();
    world.wait("pod/left", "Ready");
    let uid = world.kubectl.value("pod/left", ".metadata.uid");
    // The node is killed, and the object goes while it is away.
    let data = world.server.data_dir();
    world.server.kill();
    let alone = Server::start_again_in(world.files.path(), &["--no-node", "--no-operator"]);
    world.kubectl.ok(&["delete", "pod", "left", "--force", "--grace-period=0"]);
    drop(alone);
    assert!(is_gone(&uid).is_err() && has_link(&bridge));
    let clean = |args: &[&str]| {
        let mut command = Command::new(program());
        command.args(["clean", "--container-runtime", "none", "--data-dir"]).arg(&data).args(args);
        finish(command.env("TMPDIR", world.files.path())).ok()
    };
    assert!(clean(&[]).contains("edge/left"));
    assert!(is_gone(&uid).is_err(), "it was only shown");
    // What an administrator uses stays. One that was never named was left by somebody who was killed.
    ip(&format!("address add 192.168.100.1/24 dev {bridge}"));
    ip("link add cw-new-1 type bridge");
    clean(&["--yes"]);
    is_gone(&uid).unwrap();
    assert!(has_link(&bridge) && !has_link("cw-new-1"));
    ip(&format!("address flush dev {bridge}"));
    clean(&["--yes"]);
    assert!(!has_link(&bridge));
    assert!(clean(&[]).contains("nothing is left over"));
}
