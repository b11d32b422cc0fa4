//! `kill -9` under load, again and again on one file of leases: no address is given to two clients, and no lease is lost
//! that a client was told of.
//!
//! `CAUSEWAY_CRASH_ROUNDS` sets the number of rounds.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use causeway_testkit::blocking::eventually;
use causeway_testkit::{Dice, PATIENCE};

use crate::load::Load;
use crate::network::{Network, inside, ip};
use crate::server::{Server, leases};

/// A pool that no test of some minutes fills.
const PLAN: &str = "interface: lan\nserver: 10.77.0.2\nnetwork: 10.77.0.0/24\n\
     pool: {first: 10.77.0.100, last: 10.77.0.200}\n\
     relayed: [{network: 10.128.0.0/10, pool: {first: 10.128.0.10, last: 10.191.255.0}}, \
     {network: 10.78.0.0/16, pool: {first: 10.78.0.10, last: 10.78.255.0}}]\n";
const ROUNDS: u32 = 8;

#[test]
fn no_lease_is_lost_and_no_address_given_twice_when_the_server_is_killed() {
    let Some(mut network) = Network::new(&["perfdhcp"]) else { return };
    let rounds = std::env::var("CAUSEWAY_CRASH_ROUNDS").map_or(ROUNDS, |n| n.parse().unwrap());
    let root = tempfile::tempdir().unwrap();
    let machine = network.machine(1);
    for address in ["10.77.0.3/24", "10.128.0.1/32", "10.78.0.1/32"] {
        ip(&["-n", &machine, "address", "add", address, "dev", "eth0"]);
    }
    for way in ["10.128.0.0/10", "10.78.0.0/16"] {
        ip(&["-n", &network.server(), "route", "add", way, "via", "10.77.0.3"]);
    }
    let mut dice = Dice::from_env("CAUSEWAY_CRASH_SEED");
    println!("seed {}", dice.seed());
    let mut promised: HashMap<u32, Ipv4Addr> = HashMap::new();
    for round in 0..rounds {
        let mut server = Server::start(&network, root.path(), PLAN);
        let load = Load::start(&machine, Ipv4Addr::new(10, 128, 0, 1), "10.77.0.2", round * 1_000_000);
        let mut perfdhcp = inside(&machine, "perfdhcp")
            .args(["-4", "-l", "10.78.0.1", "-r", "500", "-R", "2000", "-p", "30", "10.77.0.2"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // With many leases a debug build takes a while to find the first free address.
        eventually("a client is served", PATIENCE, || load.is_served());
        std::thread::sleep(Duration::from_millis(dice.below(300)));
        server.kill();
        let round_promised = load.stop();
        perfdhcp.kill().unwrap();
        perfdhcp.wait().unwrap();
        assert!(!round_promised.is_empty(), "nobody was served in round {round}:\n{}", server.log());
        promised.extend(round_promised);
        let kept = leases(root.path());
        for (client, address) in &promised {
            let lease = kept.get(&address.to_string());
            let [a, b, c, d] = client.to_be_bytes();
            let card = format!("02:01:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
            let holder = lease.and_then(|lease| lease["hardware"].as_str());
            assert_eq!(holder, Some(&*card), "{address} in round {round}");
        }
    }
    let kept = leases(root.path());
    assert!(kept.keys().any(|address| address.starts_with("10.78.")), "perfdhcp was served");
    let mut addresses: Vec<_> = promised.values().collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), promised.len(), "an address has two clients");
    println!("{} leases in {rounds} rounds", promised.len());
}
