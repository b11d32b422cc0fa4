//! A `ProxyServer` on an isolated network, as a virtual machine there meets it.

use causeway_testkit::blocking::eventually;
use causeway_testkit::envoy;
use causeway_testkit::kubectl::finish;
use serde_json::{Value, json};

use crate::lan::{Lan, Vm};
use crate::world::{PATIENCE, World};

const STATUS: &str = ".metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status";

#[test]
fn a_virtual_machine_reaches_services_by_name() {
    let Some(world) = World::new() else { return };
    world.tls_server("shop");
    world.tls_server("mail");
    // Two networks with the same addresses, one with each engine.
    let (one, two) = (Lan::new(), Lan::new());
    world.bridge("one", &one.name);
    world.bridge("two", &two.name);
    let engine = if envoy::program().is_some() { "Envoy" } else { "Native" };
    world.proxy_server("first", "one", "192.168.100.4/24", "Native", &["shop"]);
    world.proxy_server("second", "two", "192.168.100.4/24", engine, &["mail"]);
    let vms = [&one, &two].map(|lan| Vm::on(&lan.name, Some("192.168.100.10/24")));
    for (proxy, vm, name, other) in [("first", &vms[0], "shop", "mail"), ("second", &vms[1], "mail", "shop")]
    {
        world.wait(&format!("proxyserver/{proxy}"), "Ready");
        let ask = |name: &str| vm.ask(&format!("{name}.example.com"), "192.168.100.4", &world.certificate());
        let answer = ask(name).unwrap();
        assert!(answer.contains(name), "{answer}");
        ask(other).unwrap_err();
    }

    let status: Value = serde_json::from_str(&world.pod_of("first", STATUS)).unwrap();
    let address = world.pod_of("first", ".status.podIP");
    assert_eq!(status[0]["ips"], json!([address]));
    assert_eq!(status[1]["name"], "edge/one");
    assert_eq!((&status[1]["interface"], &status[1]["ips"]), (&json!("net1"), &json!(["192.168.100.4"])));
    assert_eq!(status[1]["mac"], "0a:58:c0:a8:64:04", "a pod that follows has the same");

    // What is on the isolated network does not get to the machine through the pod.
    let namespace = format!("causeway-{}", world.pod_of("first", ".metadata.uid"));
    let inside = |command: &str| {
        let args = ["netns", "exec", &namespace, "sh", "-c", command];
        finish(std::process::Command::new("ip").args(args)).ok()
    };
    let settings =
        "cd /proc/sys/net; cat ipv4/conf/*/forwarding ipv6/conf/all/forwarding ipv4/conf/net1/route_localnet";
    assert!(inside(settings).lines().all(|value| value == "0"));
    assert_eq!(
        inside("cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/conf/net1/arp_notify"),
        "0\n1\n"
    );
    finish(vms[0].command("ip").args(["route", "add", "127.128.0.0/9", "via", "192.168.100.4"])).ok();
    finish(vms[0].command("ip").args(["route", "add", "10.255.0.0/16", "via", "192.168.100.4"])).ok();
    let health = format!("http://{address}:8080/readyz");
    let mut curl = vms[0].command("curl");
    finish(curl.args(["--silent", "--max-time", "2", "--interface", "192.168.100.10", &health])).fails();

    // An edit reaches the pod, which has its way to the API server, and the pod its new backend.
    world.proxy_server("first", "one", "192.168.100.4/24", "Native", &["shop", "mail"]);
    eventually("the new name is served", PATIENCE, || {
        vms[0].ask("mail.example.com", "192.168.100.4", &world.certificate())
    });
}

#[test]
fn an_interface_of_the_machine_can_be_shared() {
    let Some(world) = World::new() else { return };
    world.tls_server("shop");
    let vm = Vm::beside(Some("192.168.7.1/24"));
    let ipam = json!({"type": "static", "addresses": [{"address": "192.168.7.9/24"}],
                      "routes": [{"dst": "10.20.0.0/16", "gw": "192.168.7.1"}]});
    world.attachment("shared", &json!({"type": "macvlan", "master": vm.port(), "mtu": 1400, "ipam": ipam}));
    for (name, address) in [("a", "192.168.7.4/24"), ("b", "192.168.7.5/24")] {
        world.proxy_server(name, "shared", address, "Native", &["shop"]);
    }
    for (name, address) in [("a", "192.168.7.4"), ("b", "192.168.7.5")] {
        world.wait(&format!("proxyserver/{name}"), "Ready");
        eventually("the virtual machine reaches it", PATIENCE, || {
            vm.ask("shop.example.com", address, &world.certificate())
        });
    }
    let namespace = format!("causeway-{}", world.pod_of("a", ".metadata.uid"));
    let routes = crate::lan::ip(&format!("-n {namespace} route"));
    assert!(routes.contains("10.20.0.0/16 via 192.168.7.1 dev net1"), "{routes}");
    assert!(crate::lan::ip(&format!("-n {namespace} link show net1")).contains("mtu 1400"));
}
