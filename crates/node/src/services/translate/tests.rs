use std::sync::Arc;

use causeway_ir::Endpoint;
use serde_json::{Value, json};

use super::*;

fn service(name: &str, spec: Value) -> Arc<Service> {
    Arc::new(
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})).unwrap(),
    )
}

fn slice(service: &str, ports: Value, endpoints: Value) -> Arc<EndpointSlice> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": format!("{service}-x"), "namespace": "ns", "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
        }))
        .unwrap(),
    )
}

/// Translates, and makes sure that the engine would take it.
fn run(services: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> Plan {
    let plan = translate(services, slices, None);
    assert_eq!(plan.validate(), []);
    plan
}

fn binds(plan: &Plan) -> Vec<String> {
    plan.listeners.iter().map(|listener| listener.bind.to_string()).collect()
}

fn endpoint(address: &str) -> Endpoint {
    Endpoint::new(address.parse::<SocketAddr>().unwrap())
}

#[test]
fn each_port_gets_the_endpoints_of_its_name() {
    let web = service(
        "web",
        json!({"clusterIP": "127.96.0.5", "clusterIPs": ["127.96.0.5"], "sessionAffinity": "ClientIP", "ports": [
            {"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]}),
    );
    let slice = slice(
        "web",
        json!([{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": 5353, "protocol": "UDP"}]),
        json!([{"addresses": ["127.128.0.1"]}, {"addresses": ["127.128.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}}]),
    );
    let plan = run(&[web], &[slice]);
    assert_eq!(binds(&plan), ["127.96.0.5:80", "127.96.0.5:53"]);
    assert!(plan.listeners[1].protocol.is_udp());
    assert_eq!(plan.clusters[0].policy, Policy::SourceHash);
    assert_eq!(plan.clusters[1].idle_timeout, UDP_IDLE);
    let http = &plan.clusters[0].endpoints;
    assert_eq!(http[0], endpoint("127.128.0.1:8080"));
    assert_eq!((http[1].ready, http[1].serving, http[1].terminating), (false, true, true));
    assert_eq!(plan.clusters[1].endpoints[0], endpoint("127.128.0.1:5353"));
    assert_eq!(service_of(&plan.listeners[0].name), Some(("ns", "web")));
}

#[test]
fn a_node_port_listens_on_loopback_too() {
    let ports = json!([{"port": 80, "nodePort": 30080}]);
    let web = service("web", json!({"type": "NodePort", "clusterIP": "127.96.0.5", "ports": ports}));
    let plan = run(&[web], &[]);
    assert_eq!(binds(&plan), ["127.96.0.5:80", "127.0.0.1:30080"]);
    assert_eq!(plan.clusters.len(), 1);
    assert!(plan.clusters[0].endpoints.is_empty());
}

#[test]
fn a_node_port_is_beyond_loopback_when_asked_for_by_tcp_and_udp() {
    let ports = json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    let web = [service("web", json!({"type": "NodePort", "clusterIP": "127.96.0.5", "ports": ports}))];
    for (listen_on, expected) in [
        (
            "192.0.2.7",
            ["127.0.0.1:30080", "192.0.2.7:30080", "127.0.0.1:30053", "192.0.2.7:30053"].as_slice(),
        ),
        ("0.0.0.0", &["0.0.0.0:30080", "0.0.0.0:30053"]),
        ("127.0.0.1", &["127.0.0.1:30080", "127.0.0.1:30053"]),
        ("::", &["127.0.0.1:30080", "[::]:30080", "127.0.0.1:30053", "[::]:30053"]),
    ] {
        let plan = translate(&web, &[] as &[Arc<EndpointSlice>], Some(listen_on.parse().unwrap()));
        assert_eq!(plan.validate(), []);
        let on_node: Vec<_> = binds(&plan).into_iter().filter(|bind| bind.contains(":300")).collect();
        assert_eq!(on_node, expected, "{listen_on}");
    }
}

#[test]
fn what_has_no_address_is_left_out() {
    let ports = json!([{"port": 80}]);
    let services = [
        service("headless", json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": ports})),
        service("elsewhere", json!({"type": "ExternalName", "externalName": "example.test", "ports": ports})),
        service("sctp", json!({"clusterIP": "127.96.0.9", "ports": [{"port": 80, "protocol": "SCTP"}]})),
        service("zero", json!({"clusterIP": "127.96.0.8", "ports": [{"port": 0}, {"port": 70000}]})),
    ];
    assert_eq!(run(&services, &[]), Plan::default());
}

#[test]
fn two_that_want_one_address_do_not_spoil_the_plan() {
    let spec = json!({"clusterIP": "127.96.0.5", "ports": [{"port": 80}]});
    let plan = run(&[service("b", spec.clone()), service("a", spec)], &[]);
    assert_eq!(plan.listeners.len(), 1);
    assert_eq!(service_of(&plan.listeners[0].name), Some(("ns", "a")));
}

#[test]
fn an_address_in_two_slices_counts_once_and_names_are_left_out() {
    let web = service("web", json!({"clusterIP": "127.96.0.5", "ports": [{"port": 80}]}));
    let not_ready = json!([{"addresses": ["127.0.0.1"], "conditions": {"ready": false}}, {"addresses": ["a.example.test"]}]);
    let slices = [
        slice("web", json!([{"port": 8080}]), not_ready),
        slice("web", json!([{"name": "", "port": 8080}]), json!([{"addresses": ["127.0.0.1"]}])),
        slice("web", json!([{"name": "other", "port": 9090}]), json!([{"addresses": ["127.0.0.2"]}])),
        slice("other", json!([{"port": 1}]), json!([{"addresses": ["127.0.0.3"]}])),
    ];
    let plan = run(&[web], &slices);
    assert_eq!(plan.clusters[0].endpoints, [endpoint("127.0.0.1:8080")]);
}

#[test]
fn not_ready_addresses_are_used_when_the_service_publishes_them() {
    let spec = json!({"clusterIP": "127.96.0.5", "publishNotReadyAddresses": true, "ports": [{"port": 80}]});
    let not_ready = json!([{"addresses": ["127.0.0.1"], "conditions": {"ready": false}}]);
    let plan = run(&[service("web", spec)], &[slice("web", json!([{"port": 8080}]), not_ready)]);
    assert!(plan.clusters[0].endpoints[0].ready);
}

#[test]
fn a_load_balancer_is_what_the_machine_listens_on() {
    let of_type = |name: &str, address: &str, type_: &str| {
        let ports = json!([{"port": 8080, "nodePort": 30080}]);
        service(name, json!({"clusterIP": address, "clusterIPs": [address], "type": type_, "ports": ports}))
    };
    let services = [of_type("a", "127.96.0.5", "LoadBalancer"), of_type("b", "127.96.0.6", "NodePort")];
    let outside: IpAddr = "192.0.2.7".parse().unwrap();
    let plan = translate(&services, &[] as &[Arc<EndpointSlice>], Some(outside));
    let of_first: Vec<_> = binds(&plan).into_iter().take(4).collect();
    assert_eq!(of_first, ["127.96.0.5:8080", "127.0.0.1:30080", "192.0.2.7:30080", "192.0.2.7:8080"]);
    assert_eq!(binds(&plan).iter().filter(|bind| *bind == "192.0.2.7:8080").count(), 1);
    let two = [of_type("a", "127.96.0.5", "LoadBalancer"), of_type("b", "127.96.0.6", "LoadBalancer")];
    let plan = translate(&two, &[] as &[Arc<EndpointSlice>], Some(outside));
    assert_eq!(binds(&plan).iter().filter(|bind| *bind == "192.0.2.7:8080").count(), 1, "the first has it");
}
