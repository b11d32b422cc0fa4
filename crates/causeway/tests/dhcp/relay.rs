//! perfdhcp, as a relay and as clients of IPv6, at a rate that no server should lose anything at.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::network::{Network, inside, ip};
use crate::server::{Server, plan};

#[test]
fn a_relay_of_many_clients_loses_nothing() {
    let Some(mut network) = Network::new(&["perfdhcp", "curl"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let machine = network.machine(1);
    ip(&["-n", &machine, "address", "add", "10.77.0.3/24", "dev", "eth0"]);
    let wide = "interface: lan\nserver: 10.77.0.2\nnetwork: 10.77.0.0/16\n\
         pool: {first: 10.77.1.0, last: 10.77.255.0}\nprobe: 0s\n";
    let server = Server::start(&network, root.path(), wide);
    let output = inside(&machine, "perfdhcp")
        .args(["-4", "-l", "10.77.0.3", "-r", "200", "-R", "300", "-n", "600", "-W", "500000", "10.77.0.2"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let drops: Vec<&str> = said.lines().filter(|line| line.starts_with("drops:")).collect();
    assert_eq!(drops, ["drops: 0", "drops: 0"], "{said}");
    assert!(said.contains("received packets: 600"), "{said}");
    let leases = server.leases();
    assert!((200..=300).contains(&leases.len()), "{} leases", leases.len());
    let metrics = server.admin("/metrics");
    assert!(metrics.contains("causeway_dhcp_received_total{message=\"request\"} 600"), "{metrics}");
}

#[test]
fn many_clients_of_ipv6_lose_nothing() {
    let Some(mut network) = Network::new(&["perfdhcp", "curl"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let machine = network.machine(1);
    let more = "ipv6: {network: 'fd77::/64', pool: {first: 'fd77::1:0', last: 'fd77::ffff:ffff'}}\n";
    let server = Server::start(&network, root.path(), &plan(more));
    eventually("a link-local address", PATIENCE, || {
        let output =
            ip(&["-n", &machine, "-6", "address", "show", "dev", "eth0", "scope", "link", "-tentative"]);
        output.stdout.windows(4).any(|word| word == b"fe80")
    });
    let output = inside(&machine, "perfdhcp")
        .args(["-6", "-l", "eth0", "-r", "200", "-R", "300", "-n", "600", "-W", "500000", "all"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let drops: Vec<&str> = said.lines().filter(|line| line.starts_with("drops:")).collect();
    assert_eq!(drops, ["drops: 0", "drops: 0"], "{said}");
    assert!((200..=300).contains(&server.leases().len()), "{said}");
}
