use causeway_api::{HealthCheck, ProxyComponent, ProxyNetwork, ProxyServerSpec};
use serde_json::json;
use std::sync::Arc;

use super::*;
use crate::{
    grants::Grants,
    vlan::{infra::backends as infra_backends, proxy::fixture},
};

fn bind(text: &str, place: Place) -> Bind {
    Bind { address: text.parse().unwrap(), place }
}

fn proxy(backends: Vec<Backend>, ports: Vec<PortDefaults>) -> ProxyServer {
    let network_config = ProxyNetwork { server_ip: "192.168.100.5".into(), ..ProxyNetwork::default() };
    ProxyServer::new(
        "edge",
        ProxyServerSpec { network_config, backends, ports, ..ProxyServerSpec::default() },
    )
}

fn backend(name: &str, port: u16) -> Backend {
    Backend {
        name: name.into(),
        hostname: format!("{name}.Example.test"),
        port,
        target_service: name.into(),
        target_port: 443,
        target_namespace: "apps".into(),
        ..Backend::default()
    }
}

/// A Service with ports `(name, number, target)` and one slice of the addresses.
fn target(namespace: &str, name: &str, ports: &[(&str, u16, u16)], addresses: &[&str]) -> Targets {
    let (service, slice) = pair(namespace, name, ports, addresses);
    read(&[service], &[slice])
}

fn pair(
    namespace: &str,
    name: &str,
    ports: &[(&str, u16, u16)],
    addresses: &[&str],
) -> (serde_json::Value, serde_json::Value) {
    let service = json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"ports": ports.iter().map(|(n, p, _)| json!({"name": n, "port": p})).collect::<Vec<_>>()},
    });
    let slice = json!({
        "metadata": {"namespace": namespace, "name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": ports.iter().map(|(n, _, t)| json!({"name": n, "port": t, "protocol": "TCP"})).collect::<Vec<_>>(),
        "endpoints": addresses.iter().map(|a| json!({"addresses": [a]})).collect::<Vec<_>>(),
    });
    (service, slice)
}

fn read(services: &[serde_json::Value], slices: &[serde_json::Value]) -> Targets {
    Targets::new(
        services.iter().map(|v| Arc::new(serde_json::from_value(v.clone()).unwrap())),
        slices.iter().map(|v| Arc::new(serde_json::from_value(v.clone()).unwrap())),
    )
}

#[test]
fn a_hosted_control_plane_keeps_its_ways() {
    let component = ProxyComponent::default();
    let backends = infra_backends::merge(&component, "west.example.test", "cp");
    let ports = infra_backends::port_defaults(&component, &backends);
    let api = component.api_server_service.clone();
    let (services, slices): (Vec<_>, Vec<_>) = [
        pair("cp", &api, &[("", 6443, 6443)], &["10.0.0.1", "10.0.0.2"]),
        pair("cp", "oauth-openshift", &[("", 6443, 6443)], &["10.0.0.3"]),
        pair("cp", "konnectivity-server", &[("", 8091, 8091)], &["10.0.0.4"]),
    ]
    .into_iter()
    .unzip();
    let targets = read(&services, &slices);
    let at = [bind("192.168.100.5", Place::Server), bind("10.128.0.9", Place::Pod)];
    let made = translate(&proxy(backends, ports), &at, &targets);
    assert_eq!(made.plan.validate(), []);
    let states: Vec<String> = made
        .backends
        .iter()
        .map(|b| format!("{} {} {}", b.name, b.ready_endpoints, b.message.as_deref().unwrap_or("-")))
        .collect();
    insta::assert_snapshot!("six_backends", states.join("\n"));
    insta::assert_json_snapshot!("six_backends_plan", made.plan);
}

#[test]
fn a_port_whose_every_outcome_is_its_only_backend_is_not_sniffed() {
    let all = |name: &str| {
        let outcome = Some(Outcome { backend: Some(name.into()), refuse: None });
        PortDefaults {
            port: 22,
            plaintext: outcome.clone(),
            no_sni: outcome.clone(),
            unknown_sni: outcome,
            ..PortDefaults::default()
        }
    };
    let at = [bind("127.0.0.1", Place::Pod)];
    let made = translate(&proxy(vec![backend("ssh", 22)], vec![all("ssh")]), &at, &Targets::default());
    assert_eq!(made.plan.validate(), []);
    assert_eq!(made.plan.listeners[0].sniff, ir::Sniff::None);
    assert_eq!(made.plan.listeners[0].name, "edge-listener-22-pod");

    let two = proxy(vec![backend("ssh", 22), backend("other", 22)], vec![all("ssh")]);
    let made = translate(&two, &at, &Targets::default());
    assert_eq!(made.plan.listeners[0].sniff, ir::Sniff::Tls);
    assert_eq!(made.plan.listeners[0].plaintext, ir::Outcome::Cluster("edge-ssh".into()));
}

#[test]
fn without_a_ports_entry_unmatched_connections_are_refused() {
    let made = translate(
        &proxy(vec![backend("a", 443)], vec![]),
        &[bind("127.0.0.1", Place::Server)],
        &Targets::default(),
    );
    let listener = &made.plan.listeners[0];
    assert_eq!(listener.no_server_name, ir::Outcome::Refuse(ir::Refusal::Alert));
    assert_eq!(listener.unknown_server_name, ir::Outcome::Refuse(ir::Refusal::Alert));
    assert_eq!(listener.plaintext, ir::Outcome::Refuse(ir::Refusal::Close));
    assert_eq!(listener.routes[0].server_names, ["a.example.test"]);
}

#[test]
fn one_address_is_listened_on_once_and_udp_beside_tcp() {
    let udp = Backend { protocol: Protocol::Udp, ..backend("d", 53) };
    let same = [bind("127.0.0.1", Place::Server), bind("127.0.0.1", Place::Pod)];
    let made = translate(&proxy(vec![backend("a", 53), udp], vec![]), &same, &Targets::default());
    let names: Vec<&str> = made.plan.listeners.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["edge-listener-53", "edge-listener-53-udp"]);
    assert_eq!(made.plan.clusters[1].idle_timeout, Duration::from_mins(1));
    assert_eq!(made.plan.validate(), []);
}

#[test]
fn the_services_port_is_followed_by_name_to_the_endpoints() {
    let targets = target("apps", "a", &[("metrics", 80, 9090), ("https", 443, 8443)], &["10.0.0.1"]);
    let made = translate(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    assert_eq!(made.plan.clusters[0].endpoints, [ir::Endpoint::new("10.0.0.1:8443")]);
    assert_eq!(made.backends[0].message, None);
}

#[test]
fn an_endpoints_port_is_used_with_a_remark_when_the_service_has_no_such_port() {
    let targets = target("apps", "a", &[("https", 8000, 443)], &["10.0.0.1"]);
    let made = translate(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    assert_eq!(made.plan.clusters[0].endpoints, [ir::Endpoint::new("10.0.0.1:443")]);
    assert_eq!(made.backends[0].ready_endpoints, 1);
    let message = made.backends[0].message.clone().unwrap();
    assert!(message.contains("used directly") && message.contains("8000/TCP"), "{message}");

    let targets = target("apps", "a", &[("https", 8000, 8443)], &["10.0.0.1"]);
    let made = translate(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    assert!(made.plan.clusters[0].endpoints.is_empty());
    assert!(made.backends[0].message.clone().unwrap().contains("has no TCP port 443"));
}

#[test]
fn a_missing_service_leaves_the_others_alone() {
    let targets = target("apps", "a", &[("", 443, 443)], &["10.0.0.1"]);
    let made = translate(&proxy(vec![backend("a", 443), backend("gone", 443)], vec![]), &[], &targets);
    assert_eq!(made.plan.clusters[0].endpoints.len(), 1);
    assert!(made.plan.clusters[1].endpoints.is_empty());
    let message = made.backends[1].message.clone().unwrap();
    assert!(message.contains("there is no Service apps/gone"), "{message}");
}

#[test]
fn a_service_elsewhere_that_is_not_granted_is_not_carried() {
    let proxy = fixture::proxy(&json!({}));
    let (services, slices): (Vec<_>, Vec<_>) = [
        pair("clusters", "api", &[("", 8443, 8443)], &["10.0.0.1"]),
        pair("tools", "web", &[("", 8443, 8443)], &["10.0.0.2"]),
    ]
    .into_iter()
    .unzip();
    let carried = |targets: Targets| {
        let made = translate(&proxy, &[bind("127.0.0.1", Place::Pod)], &targets);
        assert_eq!(made.plan.validate(), []);
        let ready: Vec<_> = made.backends.iter().map(|b| b.ready_endpoints).collect();
        (ready, made.backends[1].message.clone())
    };
    let (ready, message) = carried(read(&services, &slices).granted_by(Grants::default()));
    assert_eq!(ready, [1, 0], "its own namespace needs no grant");
    assert!(message.unwrap().contains("create a ReferenceGrant in tools"));
    assert_eq!(carried(read(&services, &slices).granted_by(fixture::grants("db"))).0, [1, 0]);
    assert_eq!(carried(read(&services, &slices).granted_by(fixture::grants("web"))), (vec![1, 1], None));
}

#[test]
fn conditions_families_and_duplicates_of_slices_are_honoured() {
    let service = json!({"metadata": {"namespace": "apps", "name": "a"}, "spec": {"ports": [{"port": 443}]}});
    let slice = |name: &str, kind: &str, endpoints: serde_json::Value| {
        json!({
            "metadata": {"namespace": "apps", "name": name, "labels": {"kubernetes.io/service-name": "a"}},
            "addressType": kind, "ports": [{"name": "", "port": 8443, "protocol": "TCP"}], "endpoints": endpoints,
        })
    };
    let targets = read(
        &[service],
        &[
            slice(
                "a1",
                "IPv4",
                json!([
                    {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
                    {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                    {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false}},
                ]),
            ),
            slice("a2", "IPv4", json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}])),
            slice("a3", "IPv6", json!([{"addresses": ["fd00::1"]}])),
            slice("a4", "FQDN", json!([{"addresses": ["x.test"]}])),
        ],
    );
    let made = translate(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    let seen: Vec<(&str, bool, bool, bool)> = made.plan.clusters[0]
        .endpoints
        .iter()
        .map(|e| (e.address.as_str(), e.ready, e.serving, e.terminating))
        .collect();
    assert_eq!(
        seen,
        [
            ("10.0.0.1:8443", true, true, false),
            ("10.0.0.2:8443", false, true, true),
            ("10.0.0.3:8443", false, false, false),
            ("[fd00::1]:8443", true, true, false),
        ]
    );
    assert_eq!(made.backends[0].ready_endpoints, 2);
}

#[test]
fn every_wish_of_a_backend_reaches_its_cluster() {
    let wishes = Backend {
        timeout_seconds: 7,
        idle_timeout_seconds: Some(90),
        balancing: Balancing::SourceHash,
        connection_limit: Some(10),
        health_check: Some(HealthCheck {
            kind: HealthCheckKind::Tls,
            interval_seconds: 3,
            timeout_seconds: 1,
        }),
        slow_start_seconds: Some(20),
        send_proxy_protocol: Some(ProxyProtocol::V2),
        ..backend("a", 443)
    };
    let mut proxy = proxy(vec![wishes], vec![]);
    proxy.spec.connection_limit = Some(1000);
    proxy.spec.drain_seconds = 5;
    let plan = translate(&proxy, &[], &Targets::default()).plan;
    assert_eq!(plan.limits.connections, Some(1000));
    assert_eq!(plan.drain_timeout, Duration::from_secs(5));
    insta::assert_json_snapshot!("wishes", plan.clusters[0]);
}
