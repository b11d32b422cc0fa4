use proptest::prelude::*;

use super::*;

fn request(network: &str, gateway: &str) -> Request {
    Request {
        network: network.parse().unwrap(),
        gateway: gateway.parse().unwrap(),
        written: [None; 3],
        taken: Vec::new(),
        claimed: Vec::new(),
        reserved: Vec::new(),
        written_range: None,
        others: Vec::new(),
        previous: Chosen::default(),
        is_range_in_use: false,
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn show(chosen: &Chosen) -> String {
    let text =
        |address: Option<IpAddr>| address.map_or_else(|| "-".to_owned(), |address| address.to_string());
    let [dhcp, dns, proxy] = chosen.servers.map(text);
    let range = chosen.range.map_or_else(|| "-".to_owned(), |(start, end)| format!("{start} to {end}"));
    format!("{dhcp} {dns} {proxy}, {range}")
}

#[test]
fn takes_the_first_free_addresses_and_leaves_the_rest_to_clients() {
    for (network, gateway, expected) in [
        (
            "192.168.100.0/24",
            "192.168.100.1",
            "192.168.100.2 192.168.100.3 192.168.100.4, 192.168.100.17 to 192.168.100.254",
        ),
        (
            "192.168.100.0/24",
            "192.168.100.254",
            "192.168.100.1 192.168.100.2 192.168.100.3, 192.168.100.17 to 192.168.100.253",
        ),
        ("10.0.0.0/29", "10.0.0.1", "10.0.0.2 10.0.0.3 10.0.0.4, 10.0.0.5 to 10.0.0.6"),
        ("10.0.0.0/30", "10.0.0.1", "10.0.0.2 - -, -"),
        ("10.0.0.0/31", "10.0.0.0", "10.0.0.1 - -, -"),
        ("fd00:1::/64", "fd00:1::1", "fd00:1::2 fd00:1::3 fd00:1::4, fd00:1::11 to fd00:1::1:10"),
        ("fd00:1::/126", "fd00:1::1", "fd00:1::2 fd00:1::3 -, -"),
    ] {
        assert_eq!(show(&choose(&request(network, gateway))), expected, "{network} with gateway {gateway}");
    }
}

#[test]
fn goes_around_what_is_written() {
    let mut request = request("192.168.100.0/24", "192.168.100.1");
    request.written = [Some(ip("192.168.100.200")), None, None];
    request.taken = vec![ip("192.168.100.2")];
    assert_eq!(
        show(&choose(&request)),
        "192.168.100.200 192.168.100.3 192.168.100.4, 192.168.100.17 to 192.168.100.199"
    );
    request.reserved = vec![ip("192.168.100.3"), ip("192.168.100.30")];
    assert_eq!(
        show(&choose(&request)),
        "192.168.100.200 192.168.100.4 192.168.100.5, 192.168.100.17 to 192.168.100.199"
    );
    request.reserved.clear();
    request.written_range = Some((ip("192.168.100.3"), ip("192.168.100.50")));
    assert_eq!(
        show(&choose(&request)),
        "192.168.100.200 192.168.100.51 192.168.100.52, 192.168.100.3 to 192.168.100.50"
    );
}

#[test]
fn goes_around_the_ranges_of_others_and_keeps_one_that_is_in_use() {
    let mut request = request("192.168.100.0/24", "192.168.100.1");
    request.previous = choose(&request);
    request.others =
        vec![(ip("192.168.100.2"), ip("192.168.100.3")), (ip("192.168.100.100"), ip("192.168.100.254"))];
    request.is_range_in_use = true;
    request.claimed = vec![ip("192.168.100.40")];
    assert_eq!(choose(&request).range, request.previous.range, "clients have its addresses");
    request.claimed.clear();
    request.is_range_in_use = false;
    assert_eq!(choose(&request).range, Some((ip("192.168.100.17"), ip("192.168.100.99"))));
    request.previous = Chosen::default();
    assert_eq!(
        show(&choose(&request)),
        "192.168.100.4 192.168.100.5 192.168.100.6, 192.168.100.17 to 192.168.100.99"
    );
}

#[test]
fn keeps_what_was_chosen_when_the_spec_grows() {
    let mut request = request("192.168.100.0/24", "192.168.100.1");
    request.previous = choose(&request);
    let before = request.previous.clone();
    request.taken = vec![ip("192.168.100.5")];
    assert_eq!(choose(&request), before, "an address elsewhere moves nothing");
    request.written[0] = Some(ip("192.168.100.9"));
    let after = choose(&request);
    assert_eq!(
        (after.servers[1], after.servers[2], after.range),
        (before.servers[1], before.servers[2], before.range)
    );
    request.gateway = ip("192.168.100.4");
    assert_eq!(choose(&request).servers[2], Some(ip("192.168.100.1")), "a taken address must move");
    request.network = "10.0.0.0/24".parse().unwrap();
    request.gateway = ip("10.0.0.1");
    request.written = [None; 3];
    request.taken = Vec::new();
    assert_eq!(
        show(&choose(&request)),
        "10.0.0.2 10.0.0.3 10.0.0.4, 10.0.0.17 to 10.0.0.254",
        "another network"
    );
}

proptest! {
    #[test]
    fn chosen_addresses_are_distinct_free_hosts_and_stable(
        prefix in 20_u8..=30,
        base in any::<u32>(),
        gateway in any::<u32>(),
        written in proptest::option::of(any::<u32>()),
        taken in proptest::collection::vec(any::<u32>(), 0..4),
    ) {
        let network = IpNet::new(Ipv4Addr::from(base).into(), prefix).unwrap().trunc();
        let (first, last) = hosts(&network);
        let pick = |random: u32| address_of(first + u128::from(random) % (last - first + 1), &network);
        let mut request = Request {
            network,
            gateway: pick(gateway),
            written: [None, written.map(pick).filter(|address| *address != pick(gateway)), None],
            taken: Vec::new(),
            claimed: taken.into_iter().map(pick).collect(),
            reserved: Vec::new(),
            written_range: None,
            others: Vec::new(),
            previous: Chosen::default(),
            is_range_in_use: false,
        };
        request.claimed.retain(|address| Some(*address) != request.written[1]);
        let chosen = choose(&request);
        let servers: Vec<IpAddr> = chosen.servers.iter().flatten().copied().collect();
        for (index, server) in servers.iter().enumerate() {
            prop_assert!(is_host(&network, *server));
            prop_assert_ne!(*server, request.gateway);
            prop_assert!(!request.claimed.contains(server));
            prop_assert!(!servers[..index].contains(server));
            prop_assert!(chosen.range.is_none_or(|range| !in_range(range, *server)));
        }
        if let Some(range) = chosen.range {
            prop_assert!(is_host(&network, range.0) && is_host(&network, range.1) && range.0 <= range.1);
            prop_assert!(!in_range(range, request.gateway));
            prop_assert!(!request.claimed.iter().any(|address| in_range(range, *address)));
        }
        request.previous = chosen.clone();
        prop_assert_eq!(choose(&request), chosen);
    }
}
