//! A peer of WireGuard that nobody here wrote, on a machine of its own outside of the cluster, comes in with what the Workstation's
//! status says.

use std::time::Instant;

use causeway_testkit::blocking::eventually;

use super::laptop::answers;
use super::peer::{Machine, ip, is_missing};
use super::{FALLBACK, nothing_is_left, says};
use crate::world::{PATIENCE, World, cluster};

/// A machine on a cable to the first node.
fn on_a_cable() -> Machine {
    let machine = Machine::new("wgc");
    let name = format!("{}c", machine.name);
    let (node, address) = cluster().unwrap().node_network();
    let node = node.file_name().unwrap().to_str().unwrap();
    ip(&format!("link add {name} netns {node} type veth peer name eth0 netns {}", machine.name));
    ip(&format!("-n {node} address add 192.0.2.1/24 dev {name}"));
    ip(&format!("-n {node} link set {name} up"));
    for command in ["link set eth0 up", "address add 192.0.2.2/24 dev eth0"] {
        ip(&format!("-n {} {command}", machine.name));
    }
    // The nodes, and nothing else.
    let [a, b, c, _] = address.octets();
    ip(&format!("-n {} route add {a}.{b}.{c}.0/24 via 192.0.2.1", machine.name));
    machine
}

#[test]
fn a_peer_that_nobody_here_wrote_comes_in_and_is_reached() {
    if is_missing() {
        return;
    }
    let Some(world) = World::new("wireguard") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let mut machine = on_a_cable();
    let status = machine.register(&world.kubectl, PATIENCE);
    world.wait("workstation/peer", "Ready");
    machine.join(&status, PATIENCE);
    // Out: a page of a Service. Nodes are not for it.
    machine.fetches(&address, "web", PATIENCE);
    world.wait("workstation/peer", "Connected");

    // In: what others ask the Service with its name.
    machine.intercept(&world.kubectl, &status);
    says(&world, "me", "Ready", "Ready");
    eventually("it is reached", PATIENCE, || answers(&address, Some("peer"), "peer"));
    answers(&address, None, "web").unwrap();
    // Gone without a word.
    let gone = Instant::now();
    drop(machine);
    eventually("the original answers for it", PATIENCE, || answers(&address, Some("peer"), "web"));
    assert!(gone.elapsed() < FALLBACK, "{:.1?}", gone.elapsed());
    world.kubectl.ok(&["delete", "interceptrequest/me", "workstation/peer"]);
    nothing_is_left(&world);
}
