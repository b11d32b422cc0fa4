//! A network that something filters: every server is well by itself, and no machine would reach them.

use std::process::Command;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::peer;
use causeway_testkit::server::program;

use crate::infra::infra;
use crate::lan::{ip, name};
use crate::world::{PATIENCE, World};

/// Waits until the Infra and its servers are not ready, and each server says that its address is not reached.
fn until_unready(world: &World) {
    for (object, of) in
        [("dhcpserver/lab-dhcp", "dhcp"), ("dnsserver/lab-dns", "dns"), ("proxyserver/lab-proxy", "proxy")]
    {
        let address = world.kubectl.value("infra/lab", &format!(".status.addresses.{of}"));
        says(world, object, &format!("{address} is not reached by pod lab-"));
    }
    says(world, "infra/lab", "bridge-nf-call-iptables");
}

fn says(world: &World, object: &str, words: &str) {
    eventually(&format!("{object} says {words}"), PATIENCE, || {
        let of = |field: &str| {
            world.kubectl.value(object, &format!(".status.conditions[?(@.type==\"Ready\")].{field}"))
        };
        let (status, message) = (of("status"), of("message"));
        if status == "False" && message.contains(words) {
            Ok(())
        } else {
            Err(format!("{status}: {message}"))
        }
    });
}

#[test]
fn an_infra_is_not_ready_while_its_network_is_filtered() {
    let Some(world) = World::new() else { return };
    world.tls_server("shop");
    let bridge = name();
    world.bridge("vlan", &bridge);
    world.kubectl.apply(&infra("vlan").to_string()).ok();
    world.wait("infra/lab", "Ready");
    let mut doctor = Command::new(program());
    doctor.args(["doctor", "infra/lab", "-n", "edge", "--data-dir"]).arg(world.server.data_dir());

    // Ports of the bridge that do not hear each other.
    let listed = ip(&format!("-o link show master {bridge}"));
    let ports = listed.lines().filter_map(|line| line.split(": ").nth(1)?.split('@').next());
    let ports: Vec<String> = ports.map(str::to_owned).collect();
    assert_eq!(ports.len(), 3, "{listed}");
    let isolate = |switch: &str| {
        for port in &ports {
            ip(&format!("link set dev {port} type bridge_slave isolated {switch}"));
        }
    };
    isolate("on");
    until_unready(&world);
    let said = finish(&mut doctor).stdout;
    let line = format!("something drops what passes over bridge {bridge}");
    assert!(said.contains(&line), "lacks {line:?}:\n{said}");
    isolate("off");
    world.wait("infra/lab", "Ready");

    // A filter of bridges, where the kernel has one.
    let nft = |command: &str| finish(Command::new("nft").arg(command));
    let rule =
        "table bridge filtered { chain passing { type filter hook forward priority 0; policy drop; }; }";
    if nft(rule).code == Some(0) {
        until_unready(&world);
        nft("delete table bridge filtered").ok();
        world.wait("infra/lab", "Ready");
    } else {
        peer::skip("nft, which filters bridges");
    }

    // Who can't see the network says so, in place of saying that all is well.
    finish(&mut doctor).ok();
    let mut blind = Command::new("unshare");
    blind
        .args(["--mount", "sh", "-c", "mount -t tmpfs tmpfs /run/netns && exec \"$@\"", "sh"])
        .arg(program());
    blind.args(["doctor", "infra/lab", "-n", "edge", "--data-dir"]).arg(world.server.data_dir());
    let said = finish(&mut blind).ok();
    assert!(said.contains("could not be checked from here") && !said.contains("nothing is wrong"), "{said}");
    assert!(said.contains("? nothing was tried on the isolated network"), "{said}");
}
