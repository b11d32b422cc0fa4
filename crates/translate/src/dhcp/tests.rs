use causeway_api::DHCPServer;
use serde_json::{Value, json};

use super::*;

pub(super) fn server(fields: &Value) -> DHCPServer {
    let mut spec = json!({
        "networkConfig": { "cidr": "192.168.100.0/23", "gateway": "192.168.100.1", "serverIP": "192.168.100.2",
                           "dnsServers": ["192.168.100.3", "10.0.0.53"] },
        "leaseConfig": { "rangeStart": "192.168.100.50", "rangeEnd": "192.168.101.250", "leaseTime": "12h" },
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        match (value, &mut spec[key]) {
            (Value::Object(more), Value::Object(there)) => there.extend(more.clone()),
            (value, there) => *there = value.clone(),
        }
    }
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer",
        "metadata": { "name": "lab", "namespace": "clusters" }, "spec": spec,
    }))
    .unwrap()
}

#[test]
fn a_replica_has_its_part_of_the_pool_and_leases_nobody_the_others_address() {
    let object = server(&json!({
        "replicas": 2,
        "networkConfig": { "additionalServerIPs": ["192.168.100.60"], "domain": "lab.example.com" },
        "options": [{ "code": 26, "value": "9000" }],
        "reservations": [{ "mac": "02:00:00:00:00:01", "ip": "192.168.100.9", "hostname": "first" }],
    }));
    let valid = validate(&object).unwrap();
    let (net1, taken) = (Name::parse("net1").unwrap(), vec!["192.168.100.61".parse().unwrap()]);
    let surroundings = Surroundings { taken, ..Surroundings::default() };
    let plans: Vec<_> =
        valid.servers.iter().map(|at| translate(&valid, *at, net1.clone(), &surroundings)).collect();
    assert_eq!(plans[1].replica, Some(Replica { index: 1, of: 2, listens: false }));
    assert_eq!((plans[0].network.prefix_len(), plans[0].dns_servers.len()), (23, 2));
    for other in ["192.168.100.60/32", "192.168.100.61/32"] {
        assert!(plans[0].pool.except.contains(&other.parse().unwrap()), "{other}");
    }
    assert_eq!(plans[0].clients, None);
    assert!(plans.iter().all(|plan| plan.validate().is_empty()));
}

#[test]
fn what_was_anothers_part_is_given_to_nobody_while_it_may_be_leased() {
    let parts = |replicas: u8, before: Option<u8>| {
        let fields = json!({
            "replicas": replicas, "networkConfig": { "additionalServerIPs": ["192.168.100.60"] },
        });
        let valid = validate(&server(&fields)).unwrap();
        let surroundings = Surroundings { shared_before: before, ..Surroundings::default() };
        let name = Name::parse("net1").unwrap();
        let plan = |at: &Ipv4Addr| translate(&valid, *at, name.clone(), &surroundings).replica;
        valid.servers.iter().map(plan).collect::<Vec<_>>()
    };
    let part = |index, listens| Some(Replica { index, of: 2, listens });
    assert_eq!(parts(1, None), [None]);
    assert_eq!(parts(1, Some(2)), [part(0, false)], "it goes on with its own");
    assert_eq!(
        parts(2, Some(1)),
        [part(0, false), part(1, true)],
        "the second hears of what the first has given"
    );
    assert_eq!(parts(2, None), [part(0, false), part(1, false)]);
}

#[test]
fn known_clients_are_served_and_nobody_else() {
    let valid = validate(&server(&json!({ "clients": "VirtualMachines" }))).unwrap();
    let card = HardwareAddress::parse("02:00:00:00:00:01").unwrap();
    let lines = write_clients([(&card, &"vm-1".to_owned())]);
    let long = format!("02:00:00:00:00:02 {}\n", "n".repeat(64));
    let clients = read_clients(&format!("{lines}rubbish\n{long}"));
    let surroundings = Surroundings { clients, ..Surroundings::default() };
    let plan = translate(&valid, valid.servers[0], Name::parse("net1").unwrap(), &surroundings);
    let hostname = Name::parse("vm-1").ok();
    let nameless = HardwareAddress::parse("02:00:00:00:00:02").unwrap();
    let expected =
        vec![KnownClient { hardware: card, hostname }, KnownClient { hardware: nameless, hostname: None }];
    assert_eq!((plan.validate(), plan.clients), (vec![], Some(expected)));
}

#[test]
fn a_problem_names_its_field_and_what_to_write() {
    let small = json!({ "rangeStart": "192.168.100.50", "rangeEnd": "192.168.100.51" });
    let two = json!([
        { "mac": "02:00:00:00:00:01", "ip": "192.168.100.50" },
        { "mac": "02:00:00:00:00:02", "ip": "192.168.100.51" },
    ]);
    for (fields, path, words) in [
        (
            json!({ "networkConfig": { "serverIP": "10.0.0.2" } }),
            "spec.networkConfig.serverIP",
            "192.168.100.0/23",
        ),
        (
            json!({ "networkConfig": { "serverIP": "192.168.101.255" } }),
            "spec.networkConfig.serverIP",
            "machine",
        ),
        (json!({ "networkConfig": { "cidr": "fd00::/64" } }), "spec.networkConfig.cidr", "spec.ipv6.cidr"),
        (
            json!({ "networkConfig": { "gateway": "10.0.0.1" } }),
            "spec.networkConfig.gateway",
            "not in the network",
        ),
        (
            json!({ "networkConfig": { "gateway": "192.168.100.0" } }),
            "spec.networkConfig.gateway",
            "router's",
        ),
        (
            json!({ "networkConfig": { "gateway": "192.168.101.255" } }),
            "spec.networkConfig.gateway",
            "router's",
        ),
        (
            json!({ "networkConfig": { "dnsServers": ["192.168.100.3"] },
                    "reservations": [{ "mac": "02:00:00:00:00:01", "ip": "192.168.100.3" }] }),
            "spec.reservations[0].ip",
            "192.168.100.3 is a resolver's",
        ),
        (
            json!({ "reservations": [{ "mac": "01:00:00:00:00:01", "ip": "192.168.100.9" }] }),
            "spec.reservations[0].mac",
            "many machines",
        ),
        (json!({ "replicas": 2 }), "spec.replicas", "additionalServerIPs"),
        (
            json!({ "leaseConfig": { "rangeEnd": "192.168.102.1" } }),
            "spec.leaseConfig.rangeEnd",
            "not in the network",
        ),
        (json!({ "leaseConfig": { "rangeEnd": "192.168.100.4" } }), "spec.leaseConfig.rangeEnd", "swap"),
        (json!({ "leaseConfig": { "leaseTime": "0s" } }), "spec.leaseConfig.leaseTime", "at least"),
        (json!({ "leaseConfig": { "leaseTime": "8760h" } }), "spec.leaseConfig.leaseTime", "180 days"),
        (json!({ "leaseConfig": { "rebindTime": "13h" } }), "spec.leaseConfig.rebindTime", "leaseTime"),
        (json!({ "options": [{ "code": 26, "value": "big" }] }), "spec.options[0].value", "65535"),
        (json!({ "options": [{ "code": 53, "value": "1" }] }), "spec.options[0].code", "protocol's own"),
        (json!({ "leaseConfig": small, "reservations": two }), "spec.leaseConfig.rangeEnd", "all 2"),
        (json!({ "reservations": [{ "ip": "192.168.100.9" }] }), "spec.reservations[0]", "mac or clientID"),
        (
            json!({ "reservations": [{ "mac": "02:00:00:00:00:01", "ip": "10.0.0.1" }] }),
            "spec.reservations[0].ip",
            "not in",
        ),
        (
            json!({ "reservations": [{ "mac": "02:00:00:00:00:01", "ip": "fd00::9" }] }),
            "spec.reservations[0].ip",
            "spec.ipv6",
        ),
        (
            json!({ "ipv6": { "cidr": "fd00::/64" }, "reservations": [
                { "mac": "02:00:00:00:00:01", "ip": "fd00::9" }, { "mac": "02:00:00:00:00:01", "ip": "10.0.0.1" },
            ] }),
            "spec.reservations[1].ip",
            "not in",
        ),
        (
            json!({ "ipv6": { "cidr": "fd00::/64" }, "reservations": [
                { "mac": "02:00:00:00:00:01", "ip": "192.168.100.9" }, { "mac": "02:00:00:00:00:01", "ip": "fd01::9" },
            ] }),
            "spec.reservations[1].ip",
            "fd01::9",
        ),
        (json!({ "ipv6": { "cidr": "fd00::/64", "advertise": true } }), "spec.ipv6.advertise", "netRaw"),
        (json!({ "ipv6": { "cidr": "10.0.0.0/8" } }), "spec.ipv6.cidr", "fd00"),
        (json!({ "ipv6": { "cidr": "fd00::/64", "gateway": "fd00::1" } }), "spec.ipv6.gateway", "link-local"),
    ] {
        let found = validate(&server(&fields)).expect_err(&fields.to_string());
        assert_eq!(found.len(), 1, "{fields}: {found:?}");
        assert!(found[0].path == path && found[0].message.contains(words), "{fields}: {found:?}");
    }
}
