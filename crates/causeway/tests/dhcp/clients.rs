//! Real clients get addresses, keep them, and give them back.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::client::{Client, Kind};
use crate::network::{Network, inside, ip};
use crate::server::{Server, plan};

#[test]
fn real_clients_are_told_everything_and_keep_their_addresses_over_a_crash() {
    let Some(mut network) = Network::new(&["busybox", "dhclient", "dhcpcd", "curl"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let more = "reservations: [{hardware: '02:77:00:00:00:02', address: 10.77.0.200, hostname: fixed}]\n";
    let mut server = Server::start(&network, root.path(), &plan(more));
    let (one, two, three) = (network.machine(1), network.machine(2), network.machine(3));
    let udhcpc = Client::start(Kind::Udhcpc, &one, &root.path().join("one"), &[]);
    let dhclient = Client::start(Kind::Dhclient, &two, &root.path().join("two"), &[]);
    let dhcpcd = Client::start(Kind::Dhcpcd, &three, &root.path().join("three"), &[]);

    let told = udhcpc.bound();
    for (name, value) in [
        ("ip", "10.77.0.10"),
        ("mask", "24"),
        ("router", "10.77.0.1"),
        ("dns", "10.77.0.53 10.77.0.54"),
        ("domain", "lab.test"),
        ("search", "lab.test example.test"),
        ("mtu", "1400"),
        ("ntpsrv", "10.77.0.123"),
        ("staticroutes", "10.9.0.0/16 10.77.0.7 0.0.0.0/0 10.77.0.1"),
        ("lease", "3600"),
        ("serverid", "10.77.0.2"),
    ] {
        assert_eq!(told.get(name).map(String::as_str), Some(value), "{name} in {told:#?}");
    }
    let told = dhclient.bound();
    for (name, value) in [
        ("new_ip_address", "10.77.0.200"),
        ("new_subnet_mask", "255.255.255.0"),
        ("new_host_name", "fixed"),
        ("new_domain_name_servers", "10.77.0.53 10.77.0.54"),
        ("new_dhcp_renewal_time", "1800"),
    ] {
        assert_eq!(told.get(name).map(String::as_str), Some(value), "{name} in {told:#?}");
    }
    let third = dhcpcd.bound()["new_ip_address"].clone();
    assert!(third.starts_with("10.77.0."), "{third}");
    assert_eq!(server.leases().len(), 3);

    server.kill();
    drop(dhclient);
    let _server = Server::start(&network, root.path(), &plan(more));
    udhcpc.signal("-USR1");
    assert_eq!(udhcpc.told(&["renew"])["ip"], "10.77.0.10", "renewed at the next server");
    drop(udhcpc);
    // A machine that boots anew, with another client, gets what it had.
    let again = Client::start(Kind::Dhclient, &one, &root.path().join("again"), &[]);
    assert_eq!(again.bound()["new_ip_address"], "10.77.0.10");
}

#[test]
fn an_address_that_somebody_uses_is_not_offered_and_one_that_is_given_back_is_free() {
    let Some(mut network) = Network::new(&["busybox", "curl"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(&network, root.path(), &plan(""));
    let (squatter, machine) = (network.machine(1), network.machine(2));
    ip(&["-n", &squatter, "address", "add", "10.77.0.10/24", "dev", "eth0"]);
    let client = Client::start(Kind::Udhcpc, &machine, &root.path().join("client"), &[]);
    assert_eq!(client.bound()["ip"], "10.77.0.11");
    assert!(
        server.admin("/metrics").contains("causeway_dhcp_conflicts_total 1"),
        "{}",
        server.admin("/metrics")
    );
    eventually("the status counts", PATIENCE, || {
        let status = server.admin("/status");
        if status.contains("\"active\":1,\"free\":86,\"declined\":1") { Ok(()) } else { Err(status) }
    });
    client.signal("-TERM");
    eventually("the lease is given back", PATIENCE, || server.leases().is_empty());
}

#[test]
fn a_plan_that_changes_is_followed_and_strangers_are_counted() {
    let Some(mut network) = Network::new(&["busybox", "curl"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(&network, root.path(), &plan("clients: []\n"));
    let machine = network.machine(9);
    let client = Client::start(Kind::Udhcpc, &machine, &root.path().join("client"), &[]);
    eventually("the stranger is seen", PATIENCE, || {
        let status = server.admin("/status");
        if status.contains("02:77:00:00:00:09") { Ok(()) } else { Err(status) }
    });
    server.change(&plan("clients: [{hardware: '02:77:00:00:00:09', hostname: vm}]\nprobe: 0s\n"));
    let told = client.bound();
    assert_eq!((&*told["ip"], &*told["hostname"]), ("10.77.0.10", "vm"));
    // What no longer fits is refused at the next renewal, and the client moves.
    server.change(&plan("").replace("first: 10.77.0.10", "first: 10.77.0.50"));
    client.signal("-USR1");
    eventually("the client moves", PATIENCE, || server.leases().contains_key("10.77.0.50"));
    std::fs::write(root.path().join("plan.yaml"), plan("mtu: 5\n")).unwrap();
    server.says("the last one runs on");
}

#[test]
fn ipv6_clients_get_an_address_and_their_router() {
    let Some(mut network) = Network::new(&["dhclient", "curl"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let more = "ipv6: {network: 'fd77::/64', pool: {first: 'fd77::100', last: 'fd77::1ff'}, \
         dnsServers: ['fd77::53'], gateway: 'fe80::77'}\n";
    let mut server = Server::start(&network, root.path(), &plan(more));
    let machine = network.machine(6);
    let routes = |there: &str, gone: &str| {
        eventually(&format!("the router {there} is advertised, and not {gone}"), PATIENCE, || {
            let routes = ip(&["-n", &machine, "-6", "route", "show", "default"]).stdout;
            let routes = String::from_utf8(routes).unwrap();
            let is_there = routes.contains(&format!("via {there} dev eth0 proto ra"));
            if is_there && !routes.contains(gone) { Ok(()) } else { Err(routes) }
        });
    };
    routes("fe80::77", "fe80::78");
    // Its own address must have proved to be free before a client can send.
    eventually("a link-local address", PATIENCE, || {
        let output =
            ip(&["-n", &machine, "-6", "address", "show", "dev", "eth0", "scope", "link", "-tentative"]);
        output.stdout.windows(4).any(|word| word == b"fe80")
    });
    let client = Client::start(Kind::Dhclient6, &machine, &root.path().join("client"), &[]);
    let told = client.bound();
    assert_eq!((&*told["new_ip6_address"], &*told["new_dhcp6_name_servers"]), ("fd77::100", "fd77::53"));
    assert!(server.leases().contains_key("fd77::100"));
    server.change(&plan(&more.replace("fe80::77", "fe80::78")));
    routes("fe80::78", "fe80::77");
}

#[test]
fn a_client_keeps_its_address_when_the_servers_leases_are_lost() {
    let Some(mut network) = Network::new(&["busybox"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(&network, root.path(), &plan(""));
    let (machine, other) = (network.machine(1), network.machine(2));
    let client = Client::start(Kind::Udhcpc, &machine, &root.path().join("client"), &[]);
    assert_eq!(client.bound()["ip"], "10.77.0.10");
    server.kill();
    std::fs::remove_file(root.path().join("leases")).unwrap();
    // The kernel must not know the client from before.
    ip(&["-n", &network.server(), "neighbour", "flush", "dev", "lan"]);
    let server = Server::start(&network, root.path(), &plan(""));
    let newcomer = Client::start(Kind::Udhcpc, &other, &root.path().join("newcomer"), &[]);
    assert_eq!(newcomer.bound()["ip"], "10.77.0.11", "who uses 10 is found:\n{}", server.log());
    client.signal("-USR1");
    assert_eq!(client.told(&["renew"])["ip"], "10.77.0.10", "{}", server.log());
    assert_eq!(server.leases()["10.77.0.10"]["hardware"], "02:77:00:00:00:01");
}

#[test]
fn without_its_interface_a_server_is_not_ready_and_it_serves_again_when_that_is_back() {
    let Some(mut network) = Network::new(&["busybox", "curl"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(&network, root.path(), &plan("probe: 0s\n"));
    let machine = network.machine(1);
    assert_eq!(server.admin("/readyz"), "ok\n");
    let says = |words: &str| {
        eventually(&format!("ready says {words}"), PATIENCE, || {
            let said = server.admin("/readyz");
            if said.contains(words) { Ok(()) } else { Err(said) }
        });
    };
    network.remove_bridge();
    says("there is no interface lan");
    network.make_bridge();
    says("ok");
    let client = Client::start(Kind::Udhcpc, &machine, &root.path().join("client"), &[]);
    assert_eq!(client.bound()["ip"], "10.77.0.10");
    ip(&["-n", &network.server(), "address", "delete", "10.77.0.2/24", "dev", "lan"]);
    says("does not have the server's address 10.77.0.2");
}

#[test]
fn without_any_right_but_its_port_clients_are_answered_by_broadcast() {
    let Some(mut network) = Network::new(&["busybox", "setpriv"]) else { return };
    let root = tempfile::tempdir().unwrap();
    let more = "ipv6: {network: 'fd77::/64', pool: {first: 'fd77::100', last: 'fd77::1ff'}}\n";
    std::fs::write(root.path().join("plan.yaml"), plan(more)).unwrap();
    // As a volume is for the group of a pod.
    std::os::unix::fs::chown(root.path(), Some(0), Some(65532)).unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o2775)).unwrap();
    ip(&["netns", "exec", &network.server(), "sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=67"]);
    let log = || std::fs::read_to_string(root.path().join("log")).unwrap();
    let start = |rights: &[&str]| {
        let log = std::fs::File::create(root.path().join("log")).unwrap();
        inside(&network.server(), "setpriv")
            .args(["--regid=65532", "--clear-groups"])
            .args(rights)
            .arg(causeway_testkit::server::program())
            .args(["dhcp", "--config", "plan.yaml", "--leases", "leases"])
            .current_dir(root.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    };
    let mut server = start(&[]);
    eventually("it serves as root", PATIENCE, || {
        if log().contains("serving 10.77") { Ok(()) } else { Err(log()) }
    });
    server.kill().unwrap();
    server.wait().unwrap();
    // Its leases are root's, and those of its group.
    let mut server = start(&["--reuid=65532", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]);
    let machine = network.machine(1);
    let client = Client::start(Kind::Udhcpc, &machine, &root.path().join("client"), &[]);
    let address = client.bound()["ip"].clone();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(address, "10.77.0.10");
    let said = log();
    assert!(said.contains("routers can't be advertised without CAP_NET_RAW"), "{said}");
}

#[test]
fn of_two_servers_one_can_die_for_good() {
    let Some(mut network) = Network::new(&["busybox"]) else { return };
    let root = tempfile::tempdir().unwrap();
    // Short times, so that a client looks for another server within seconds.
    let times = "leaseTime: 12s\nrenewAfter: 2s\nrebindAfter: 4s\nprobe: 100ms\n";
    let second = network.machine(2);
    ip(&["-n", &second, "address", "add", "10.77.0.4/24", "dev", "eth0"]);
    let plans = [
        plan(&format!("{times}replica: {{index: 0, of: 2}}\n")),
        plan(&format!("{times}replica: {{index: 1, of: 2}}\n"))
            .replace("interface: lan", "interface: eth0")
            .replace("server: 10.77.0.2", "server: 10.77.0.4"),
    ];
    let mut servers = [
        Server::start(&network, &root.path().join("first"), &plans[0]),
        Server::start_in(&second, &root.path().join("second"), &plans[1]),
    ];
    let machine = network.machine(1);
    let client = Client::start(Kind::Udhcpc, &machine, &root.path().join("client"), &[]);
    let told = client.bound();
    let chosen = usize::from(told["serverid"] == "10.77.0.4");
    assert_eq!(servers[1 - chosen].leases().len(), 0, "the other has only seen it");
    servers[chosen].kill();
    let other = &servers[1 - chosen];
    eventually("the other server prolongs the lease", PATIENCE, || other.leases().contains_key(&told["ip"]));
    let newcomer = network.machine(3);
    let newcomer = Client::start(Kind::Udhcpc, &newcomer, &root.path().join("newcomer"), &[]);
    assert_ne!(newcomer.bound()["ip"], told["ip"]);
}
