use serde_json::{Value, json};

use super::*;

fn service(spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "web"}, "spec": spec})).unwrap()
}

fn slice(kind: &str, ports: Value, endpoints: Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": kind, "ports": ports, "endpoints": endpoints,
    }))
    .unwrap()
}

/// The endpoints of the Service's first TCP port: address, ready, serving, terminating.
fn first(service: &Service, slices: &[EndpointSlice]) -> Vec<(String, bool, bool, bool)> {
    let port = find_port(service, Protocol::Tcp, PortRef::First).unwrap();
    let found = behind_port(service, port, slices);
    found.into_iter().map(|e| (e.address.to_string(), e.ready, e.serving, e.terminating)).collect()
}

#[test]
fn a_port_is_found_by_number_by_name_or_as_the_first_of_its_protocol() {
    let web = service(json!({"ports": [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "http", "port": 80},
        {"name": "https", "port": 443, "protocol": "TCP"},
        {"name": "sctp", "port": 444, "protocol": "SCTP"},
    ]}));
    let name = |protocol, which| find_port(&web, protocol, which).and_then(|port| port.name.as_deref());
    assert_eq!(name(Protocol::Tcp, PortRef::First), Some("http"));
    assert_eq!(name(Protocol::Udp, PortRef::First), Some("dns"));
    assert_eq!(name(Protocol::Tcp, PortRef::Number(443)), Some("https"));
    assert_eq!(name(Protocol::Tcp, PortRef::Number(53)), None);
    assert_eq!(name(Protocol::Tcp, PortRef::Number(444)), None, "SCTP is not TCP");
    assert_eq!(name(Protocol::Tcp, PortRef::Name("https")), Some("https"));
    assert_eq!(name(Protocol::Tcp, PortRef::Name("other")), None);
    assert_eq!(find_port(&service(json!({})), Protocol::Tcp, PortRef::First), None);
}

#[test]
fn a_slices_port_is_the_services_by_name_and_protocol() {
    let web = service(json!({"ports": [{"name": "a", "port": 80}]}));
    let addresses = json!([{"addresses": ["10.0.0.1"]}]);
    let ports = json!([
        {"name": "b", "port": 1}, {"name": "a", "port": 2, "protocol": "UDP"}, {"name": "a", "port": 3},
        {"name": "a", "port": 0}, {"name": "a", "port": 70000},
    ]);
    assert_eq!(
        first(&web, &[slice("IPv4", ports, addresses.clone())]),
        [("10.0.0.1:3".into(), true, true, false)]
    );
    // A name that is empty and one that is left out are the same.
    let unnamed = service(json!({"ports": [{"port": 80}]}));
    let ports = json!([{"name": "", "port": 4}]);
    assert_eq!(
        first(&unnamed, &[slice("IPv4", ports, addresses)]),
        [("10.0.0.1:4".into(), true, true, false)]
    );
}

#[test]
fn a_port_without_a_number_is_the_one_that_the_service_aims_at() {
    let addresses = json!([{"addresses": ["10.0.0.1"]}]);
    for (target, expected) in
        [(json!(8080), "10.0.0.1:8080"), (json!("http"), "10.0.0.1:80"), (Value::Null, "10.0.0.1:80")]
    {
        let web = service(json!({"ports": [{"port": 80, "targetPort": target}]}));
        let found = first(&web, &[slice("IPv4", json!([{"name": ""}]), addresses.clone())]);
        assert_eq!(found, [(expected.into(), true, true, false)]);
    }
}

#[test]
fn every_family_counts_and_host_names_and_further_addresses_do_not() {
    let web = service(json!({"ports": [{"port": 80}]}));
    let ports = json!([{"port": 80}]);
    let slices = [
        slice("IPv6", ports.clone(), json!([{"addresses": ["fd00::1"]}])),
        slice("IPv4", ports.clone(), json!([{"addresses": ["10.0.0.2", "10.0.0.3"]}, {"addresses": []}])),
        slice("FQDN", ports, json!([{"addresses": ["10.0.0.4"]}, {"addresses": ["a.example.test"]}])),
    ];
    let addresses: Vec<String> = first(&web, &slices).into_iter().map(|found| found.0).collect();
    assert_eq!(addresses, ["10.0.0.2:80", "[fd00::1]:80"]);
}

#[test]
fn what_an_endpoint_says_of_itself_decides() {
    let web = service(json!({"ports": [{"port": 80}]}));
    let cases = [
        (json!(null), (true, true, false)),
        (json!({}), (true, true, false)),
        (json!({"ready": false}), (false, false, false)),
        (json!({"ready": false, "serving": true}), (false, true, false)),
        (json!({"ready": false, "serving": true, "terminating": true}), (false, true, true)),
        (json!({"ready": true, "terminating": true}), (false, true, true)),
    ];
    for (conditions, expected) in cases {
        let endpoints = json!([{"addresses": ["10.0.0.1"], "conditions": conditions}]);
        let found = first(&web, &[slice("IPv4", json!([{"port": 80}]), endpoints)]);
        let (_, ready, serving, terminating) = &found[0];
        assert_eq!((*ready, *serving, *terminating), expected, "{conditions}");
    }
}

#[test]
fn an_address_in_two_slices_counts_once_and_the_better_slice_is_believed() {
    let web = service(json!({"ports": [{"port": 80}]}));
    let at = |conditions: Value| {
        slice("IPv4", json!([{"port": 80}]), json!([{"addresses": ["10.0.0.1"], "conditions": conditions}]))
    };
    let worse_first = [
        at(json!({"ready": false})),
        at(json!({"ready": false, "serving": true})),
        at(json!({"ready": true})),
    ];
    let [worst, middle, best] = worse_first.clone();
    for slices in [worse_first.to_vec(), vec![best, middle.clone(), worst.clone()]] {
        assert_eq!(first(&web, &slices), [("10.0.0.1:80".into(), true, true, false)]);
    }
    assert_eq!(first(&web, &[middle, worst]), [("10.0.0.1:80".into(), false, true, false)]);
}

#[test]
fn a_service_may_publish_servers_that_are_not_ready() {
    let web = service(json!({"publishNotReadyAddresses": true, "ports": [{"port": 80}]}));
    let endpoints = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false, "terminating": true}}]);
    let found = first(&web, &[slice("IPv4", json!([{"port": 80}]), endpoints)]);
    assert_eq!(found, [("10.0.0.1:80".into(), true, true, true)]);
}

#[test]
fn endpoints_can_be_found_by_their_own_number() {
    let web = service(json!({"ports": [{"name": "https", "port": 8000}]}));
    let slices = [slice(
        "IPv4",
        json!([{"name": "https", "port": 443}, {"name": "other"}, {"name": "quic", "port": 443, "protocol": "UDP"}]),
        json!([{"addresses": ["10.0.0.1"]}]),
    )];
    let found = |protocol, number| at_number(&web, protocol, number, &slices).len();
    assert_eq!(at_number(&web, Protocol::Tcp, 443, &slices)[0].address.to_string(), "10.0.0.1:443");
    assert_eq!((found(Protocol::Tcp, 8000), found(Protocol::Udp, 443)), (0, 1));
}

#[test]
fn a_slice_names_its_service() {
    assert_eq!(service_of(&slice("IPv4", json!([]), json!([]))), Some(("ns", "web")));
    let stray: EndpointSlice =
        serde_json::from_value(json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": []}))
            .unwrap();
    assert_eq!(service_of(&stray), None);
}
