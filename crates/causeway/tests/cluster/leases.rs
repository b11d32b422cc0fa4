//! Who gets an address: KubeVirt's virtual machines by their cards, and everybody while one of two servers is gone for good.

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use serde_json::{Value, json};

use crate::servers::{boot, told, volume};
use crate::world::{PATIENCE, World};

const CARD: &str = "02:00:00:00:01:01";
const OTHER_CARD: &str = "02:00:00:00:01:02";

fn dhcp_server(name: &str, network: &Value, fields: &Value) -> Value {
    let mut spec = json!({
        "networkConfig": {
            "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "serverIP": "192.168.100.2",
            "networkAttachmentName": "vlan",
        },
        "leaseConfig": {"rangeStart": "192.168.100.50", "rangeEnd": "192.168.100.99"},
    });
    let extend = |part: &mut Value, more: &Value| {
        part.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    };
    extend(&mut spec["networkConfig"], network);
    extend(&mut spec, fields);
    json!({"apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer", "metadata": {"name": name}, "spec": spec})
}

/// Gives the machine this card and no address.
fn wear(world: &World, card: &str) {
    world.on_vm(&format!(
        "ip address flush dev eth0 && ip link set eth0 down && ip link set eth0 address {card} && ip link set eth0 up"
    ));
}

/// Waits until a condition of a DHCPServer has this status, and these words in its message.
fn until(world: &World, server: &str, kind: &str, status: &str, words: &str) {
    eventually(&format!("{kind} of {server} is {status}: {words}"), PATIENCE, || {
        let of = |field: &str| {
            let path = format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
            world.kubectl.value(&format!("dhcpserver/{server}"), &path)
        };
        let (is, message) = (of("status"), of("message"));
        if is == status && message.contains(words) { Ok(()) } else { Err(format!("{is} {message}")) }
    });
}

#[test]
fn only_virtual_machines_are_served_and_by_their_names() {
    let Some(world) = World::new("kubevirt") else { return };
    let _leases = volume(&world, "lab-dhcp-leases");
    let server = dhcp_server("lab", &json!({}), &json!({"clients": "VirtualMachines"}));
    world.kubectl.apply(&server.to_string()).ok();
    until(&world, "lab", "ClientsKnown", "True", "0 cards");
    let machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm-one"},
        "spec": {
            "domain": {"devices": {"interfaces": [
                {"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}},
            ]}},
            "networks": [
                {"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "vlan"}},
            ],
        },
        "status": {"interfaces": [
            {"name": "default", "mac": OTHER_CARD, "ipAddress": "10.0.2.2", "infoSource": "domain"},
            {"name": "lan", "mac": CARD, "interfaceName": "eth1", "podInterfaceName": "pod123", "queueCount": 1,
             "infoSource": "domain, guest-agent, multus-status"},
        ]},
    });
    // The definition is KubeVirt's own, so the API server takes what it would take there, and nothing else.
    let strict = ["create", "--validate=strict", "-f", "-"];
    world.kubectl.with_input(&machine.to_string(), &strict).ok();
    until(&world, "lab", "ClientsKnown", "True", "1 cards of virtual machines on kubevirt/vlan");
    world.wait("dhcpserver/lab", "Ready");

    wear(&world, CARD);
    let lease = boot(&world, &world.vm, "a-name-of-its-own");
    assert_eq!(told(&lease, "hostname"), "vm-one");
    let own = told(&lease, "ip").to_owned();
    eventually("its name is handed to DNS", PATIENCE, || {
        let names = world.kubectl.value("configmap/lab-dhcp-names", ".data.1");
        if names.trim() == format!("vm-one {own}") { Ok(()) } else { Err(names) }
    });

    // A card that is on another network of a machine is a stranger here.
    wear(&world, OTHER_CARD);
    let asks = ["udhcpc", "-f", "-q", "-n", "-t", "3", "-T", "1", "-i", "eth0", "-s", "/bin/true"];
    finish(world.vm.command("busybox").args(asks)).fails();
    eventually("who is not served is counted", PATIENCE, || {
        world.kubectl.value("dhcpserver/lab", ".status.unknownClients") == "1"
    });
    world.kubectl.ok(&["delete", "virtualmachineinstance/vm-one"]);
    until(&world, "lab", "ClientsKnown", "True", "0 cards");
    world.kubectl.run(&["delete", "pv", "lab-dhcp-leases", "--wait=false"]);
}

#[test]
fn of_two_servers_one_may_be_gone_for_good() {
    let Some(world) = World::new("pair") else { return };
    let _leases = ["pair-dhcp-leases", "pair-dhcp-2-leases"].map(|name| volume(&world, name));
    let network = json!({"additionalServerIPs": ["192.168.100.3"]});
    world.kubectl.apply(&dhcp_server("pair", &network, &json!({"replicas": 2})).to_string()).ok();
    world.wait("dhcpserver/pair", "Ready");
    wear(&world, CARD);
    let first = boot(&world, &world.vm, "one");
    let (deployment, claim) = match told(&first, "serverid") {
        "192.168.100.2" => ("pair", "pair-dhcp-leases"),
        _ => ("pair-2", "pair-dhcp-2-leases"),
    };

    // Its disk is lost, so it never comes back.
    let replica = if deployment == "pair" { "1" } else { "2" };
    let pod = format!("app=dhcp-server,causeway.dev/replica={replica}");
    world.kubectl.ok(&["delete", "pvc", claim, "--wait=false"]);
    world.kubectl.ok(&["delete", "pod", "-l", &pod, "--timeout=60s"]);
    until(&world, "pair", "Ready", "False", deployment);

    // The other serves a machine that comes, and the one whose server is gone, and never with one address for both.
    wear(&world, OTHER_CARD);
    let second = boot(&world, &world.vm, "two");
    wear(&world, CARD);
    let again = boot(&world, &world.vm, "one");
    for lease in [&second, &again] {
        assert_ne!(told(lease, "serverid"), told(&first, "serverid"));
    }
    assert_ne!(told(&second, "ip"), told(&first, "ip"));
    assert_ne!(told(&second, "ip"), told(&again, "ip"));

    world.kubectl.run(&["delete", "pv", "pair-dhcp-leases", "pair-dhcp-2-leases", "--wait=false"]);
}
