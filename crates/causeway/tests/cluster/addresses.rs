//! A proxy's address on a VLAN: its neighbours find it, nobody passes by it, and nobody else gets it.

use std::time::Instant;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::kubernetes::BUSYBOX;
use serde_json::json;

use crate::world::{PATIENCE, World, cluster};

const REMEDY: &str = r#"{"type": "tuning", "sysctl": {"net.ipv4.conf.all.forwarding": "0""#;

/// What is said of an object's condition: its status, reason and message.
fn condition(world: &World, object: &str, kind: &str) -> String {
    let of = |field: &str| {
        world.kubectl.value(object, &format!(".status.conditions[?(@.type==\"{kind}\")].{field}"))
    };
    format!("{} {}: {}", of("status"), of("reason"), of("message"))
}

/// Deletes the pods of a proxy, and waits until others are ready.
fn replace_pods(world: &World, name: &str) {
    let owner = format!("causeway.dev/owner-name={name}");
    world.kubectl.ok(&["delete", "pod", "-l", &owner, "--wait=true", "--timeout=60s"]);
    eventually("a new pod", PATIENCE, || {
        !world.kubectl.ok(&["get", "pods", "-l", &owner, "-o", "name"]).is_empty()
    });
    world.kubectl.ok(&["wait", "pod", "-l", &owner, "--for=condition=Ready", "--timeout=60s"]);
}

#[test]
fn neighbours_of_the_last_pod_find_the_next_one() {
    let Some(world) = World::new("announced") else { return };
    world.server("shop");
    // Long enough that what it knows does not end by itself.
    world.on_vm("sysctl -qw net.ipv4.neigh.eth0.base_reachable_time_ms=600000");
    world.on_vm("sysctl -qw net.ipv6.neigh.eth0.base_reachable_time_ms=600000");
    world.on_vm("ip address add fd00:100::10/64 dev eth0 nodad");
    for (name, address) in [("edge", "192.168.100.4"), ("six", "fd00:100::4")] {
        let prefix = if address.contains(':') { 64 } else { 24 };
        world.proxy_server(name, &format!("{address}/{prefix}"), "Native", &["shop"]).ok();
        world.wait(&format!("proxyserver/{name}"), "Ready");
        world.ask("shop.example.com", address).unwrap();
        let known = world.on_vm(&format!("ip neighbour show {address}"));
        replace_pods(&world, name);
        let ready = Instant::now();
        world.ask("shop.example.com", address).unwrap();
        println!("{address} answers {} ms after its new pod was ready", ready.elapsed().as_millis());
        assert_ne!(
            world.on_vm(&format!("ip neighbour show {address}")),
            known,
            "the old pod had another one"
        );
    }
}

#[test]
fn nobody_passes_by_the_proxy() {
    let Some(world) = World::new("past") else { return };
    world.server("shop");
    world.proxy_server("edge", "192.168.100.4/24", "Native", &["shop"]).ok();
    world.attachment("forwarding", "1", &json!([]));
    let network = json!({"serverIP": "192.168.100.5/24", "networkAttachmentName": "forwarding"});
    world.kubectl.apply(&world.proxy_on("open", network, "Native", &["shop"]).to_string()).ok();
    let run = ["run", "witness", "--image", BUSYBOX, "--image-pull-policy=Never", "--command", "--"];
    world.kubectl.ok(&[&run[..], &["sleep", "3600"]].concat());
    world.wait("pod/witness", "Ready");
    world.wait("proxyserver/edge", "Ready");
    eventually("the remedy is said", PATIENCE, || {
        let said = condition(&world, "proxyserver/open", "Ready");
        let is_said =
            said.starts_with("False") && said.contains("IPv4 from eth0, net1") && said.contains(REMEDY);
        if is_said { Ok(()) } else { Err(said) }
    });
    let of_pods = |label: &str, path: &str| {
        world.kubectl.ok(&["get", "pods", "-l", label, "-o", &format!("jsonpath={{.items[0].status{path}}}")])
    };
    let ready = of_pods("causeway.dev/owner-name=open", ".conditions[?(@.type==\"Ready\")].status");
    assert_eq!(ready, "False");

    let (witness, edge) =
        (of_pods("run=witness", ".podIP"), of_pods("causeway.dev/owner-name=edge", ".podIP"));
    world.on_vm("ip route add 10.84.0.0/14 via 192.168.100.4");
    // Of no use to anybody, and counted by the pod that gets it.
    let send = || world.on_vm(&format!("bash -c 'echo > /dev/udp/{witness}/9999'"));
    let arrived = || {
        let counters = world.kubectl.ok(&["exec", "witness", "--", "cat", "/proc/net/snmp"]);
        let of_udp: Vec<_> = counters.lines().filter_map(|line| line.strip_prefix("Udp: ")).collect();
        // Datagrams that came, were for no port, ...
        of_udp[1].split_whitespace().nth(1).unwrap().parse::<u32>().unwrap()
    };
    for _ in 0..3 {
        send();
    }
    let dial = |address: &str, port: u16| {
        let dial = format!("exec 3<>/dev/tcp/{address}/{port}");
        finish(world.vm.command("timeout").args(["2", "bash", "-c", &dial])).code == Some(0)
    };
    assert!(!dial(&edge, 8080), "the proxy's health port");
    assert!(!dial("10.96.0.1", 443), "the API server");
    assert_eq!(arrived(), 0);
    // What would have arrived does so where the pod forwards.
    world.on_vm("ip route replace 10.84.0.0/14 via 192.168.100.5");
    eventually("a datagram goes past the open one", PATIENCE, || {
        send();
        arrived() > 0
    });
}

#[test]
fn a_tenant_gets_no_address_of_others() {
    let Some(world) = World::new("owner") else { return };
    world.server("shop");
    world.proxy_server("edge", "192.168.100.4/24", "Native", &["shop"]).ok();
    world.wait("proxyserver/edge", "Ready");
    let answered = || assert!(world.ask("shop.example.com", "192.168.100.4").unwrap().contains("shop"));
    answered();

    let there = cluster().unwrap().namespace("tenant");
    // Causeway's kinds are part of the cluster's own roles; the Gateway API's are what somebody else makes of them.
    for (role, user) in [("edit", "mallory"), ("admin", "alice"), ("view", "bob")] {
        there.ok(&["create", "rolebinding", user, "--clusterrole", role, "--user", user]);
    }
    for (user, verb, what, may) in [
        ("mallory", "create", "proxyservers", true),
        ("mallory", "create", "referencegrants", false),
        ("mallory", "create", "addressclaims", false),
        ("mallory", "create", "interceptrequests", false),
        ("alice", "create", "referencegrants", false),
        ("alice", "create", "interceptrequests", true),
        ("alice", "create", "hostnamegrants", false),
        ("bob", "list", "infras", true),
        ("bob", "create", "infras", false),
    ] {
        let said = there.run(&["auth", "can-i", verb, what, "--as", user]);
        assert_eq!(said.stdout.trim(), if may { "yes" } else { "no" }, "{user} {verb} {what}");
    }
    let take = |address: &str| {
        let network = json!({
            "serverIP": address, "networkAttachmentName": "vlan", "networkAttachmentNamespace": "owner",
        });
        let object = world.proxy_on("mine", network, "Native", &["shop"]).to_string();
        there.with_input(&object, &["apply", "-f", "-", "--as=mallory"]).ok();
    };
    let attached = |status: &str, words: &str| {
        eventually(&format!("NetworkAttached is {status}: {words}"), PATIENCE, || {
            let of = |field: &str| {
                there.value(
                    "proxyserver/mine",
                    &format!(".status.conditions[?(@.type==\"NetworkAttached\")].{field}"),
                )
            };
            let said = format!("{} {}: {}", of("status"), of("reason"), of("message"));
            if said.starts_with(status) && said.contains(words) { Ok(()) } else { Err(said) }
        });
    };
    let pods = || there.ok(&["get", "pods", "-o", "name"]);
    take("192.168.100.4/24");
    attached("False", "RefNotPermitted: namespace owner does not let ProxyServers of namespace tenant");
    assert_eq!(pods(), "");
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": {"name": "vlan"},
        "spec": {
            "from": [{"group": "causeway.dev", "kind": "ProxyServer", "namespace": "tenant"}],
            "to": [{"group": "k8s.cni.cncf.io", "kind": "NetworkAttachmentDefinition", "name": "vlan"}],
        },
    });
    world.kubectl.apply(&grant.to_string()).ok();
    attached("False", "Conflict: 192.168.100.4 on owner/vlan belongs to ProxyServer owner/edge");
    assert_eq!(pods(), "");
    answered();
    take("192.168.100.6/24");
    attached("True", "Attached");
    answered();
    there.ok(&["delete", "proxyserver", "mine", "--timeout=60s", "--as=mallory"]);
    let left = world.kubectl.ok(&["get", "addressclaims", "-o", "jsonpath={.items[*].spec.address}"]);
    assert_eq!(left, "192.168.100.4");
}

#[test]
fn clients_behind_a_router_are_answered_by_way_of_it() {
    let Some(world) = World::new("routed") else { return };
    world.server("shop");
    // The virtual machine is the router, too.
    world.on_vm("ip address add 10.77.0.9/32 dev lo");
    world.attachment("routed", "0", &json!([{"dst": "10.77.0.0/24", "gw": "192.168.100.10"}]));
    let network = json!({"serverIP": "192.168.100.4/24", "networkAttachmentName": "routed"});
    world.kubectl.apply(&world.proxy_on("edge", network, "Native", &["shop"]).to_string()).ok();
    world.wait("proxyserver/edge", "Ready");
    let ask = "curl -sk --max-time 5 --interface 10.77.0.9 --resolve shop.example.com:443:192.168.100.4";
    let answer = world.on_vm(&format!("{ask} https://shop.example.com/"));
    assert!(answer.contains("shop"), "{answer}");
}
