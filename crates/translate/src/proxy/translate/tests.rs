use std::sync::Arc;
use std::time::Duration;

use causeway_api::{
    Backend, Balancing, HealthCheck, HealthCheckKind, Outcome, PortDefaults, Protocol, ProxyNetwork,
    ProxyProtocol, ProxyServer, ProxyServerSpec,
};
use serde_json::json;

use super::*;
use crate::grants::Grants;
use crate::proxy::validate;

fn run(proxy: &ProxyServer, bind: &[Bind], services: &Services) -> Translation {
    translate(&validate(proxy).unwrap(), &[], bind, services)
}

fn tls(listener: &ir::Listener) -> &ir::Tls {
    let ir::Protocol::Tls(tls) = &listener.protocol else { panic!("{:?}", listener.protocol) };
    tls
}

fn forward(cluster: &str) -> ir::Action {
    ir::Action::forward(ir::Name::parse(cluster).unwrap())
}

fn at(text: &str) -> ir::Endpoint {
    ir::Endpoint::new(text.parse::<SocketAddr>().unwrap())
}

fn bind(text: &str, network: Network) -> Bind {
    Bind { address: text.parse().unwrap(), network }
}

fn proxy(backends: Vec<Backend>, ports: Vec<PortDefaults>) -> ProxyServer {
    let network_config = ProxyNetwork { server_ip: Some("192.168.100.5".into()), ..ProxyNetwork::default() };
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
fn target(namespace: &str, name: &str, ports: &[(&str, u16, u16)], addresses: &[&str]) -> Services {
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

fn read(services: &[serde_json::Value], slices: &[serde_json::Value]) -> Services {
    Services::new(
        services.iter().map(|v| Arc::new(serde_json::from_value(v.clone()).unwrap())),
        slices.iter().map(|v| Arc::new(serde_json::from_value(v.clone()).unwrap())),
    )
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
    let here = [bind("127.0.0.1", Network::Pod)];
    let made = run(&proxy(vec![backend("ssh", 22)], vec![all("ssh")]), &here, &Services::default());
    assert_eq!(made.plan.validate(), []);
    let ir::Protocol::Tcp(route) = &made.plan.listeners[0].protocol else { panic!("{made:?}") };
    assert_eq!((&*route.name, &route.action), ("ssh", &forward("edge-ssh")));
    assert_eq!(made.plan.listeners[0].name, "edge-listener-22-pod");

    let two = proxy(vec![backend("ssh", 22), backend("other", 22)], vec![all("ssh")]);
    let made = run(&two, &here, &Services::default());
    assert_eq!(tls(&made.plan.listeners[0]).plaintext, forward("edge-ssh"));
}

#[test]
fn without_a_ports_entry_unmatched_connections_are_refused() {
    let made = run(
        &proxy(vec![backend("a", 443)], vec![]),
        &[bind("127.0.0.1", Network::Isolated)],
        &Services::default(),
    );
    let tls = tls(&made.plan.listeners[0]);
    assert_eq!(tls.no_server_name, ir::Action::Refuse(ir::Refusal::Alert));
    assert_eq!(tls.unknown_server_name, ir::Action::Refuse(ir::Refusal::Alert));
    assert_eq!(tls.plaintext, ir::Action::Refuse(ir::Refusal::Close));
    assert_eq!(tls.routes[0].server_names, [ir::Pattern::Exact("a.example.test".into())]);
}

#[test]
fn one_address_is_listened_on_once_and_udp_beside_tcp() {
    let udp = Backend { protocol: Protocol::Udp, ..backend("d", 53) };
    let same = [bind("127.0.0.1", Network::Isolated), bind("127.0.0.1", Network::Pod)];
    let made = run(&proxy(vec![backend("a", 53), udp], vec![]), &same, &Services::default());
    let names: Vec<&str> = made.plan.listeners.iter().map(|l| &*l.name).collect();
    assert_eq!(names, ["edge-listener-53", "edge-listener-53-udp"]);
    assert_eq!(made.plan.clusters[1].idle_timeout.get(), Duration::from_mins(1));
    assert_eq!(made.plan.validate(), []);
}

#[test]
fn the_services_port_is_followed_by_name_to_the_endpoints() {
    let targets = target("apps", "a", &[("metrics", 80, 9090), ("https", 443, 8443)], &["10.0.0.1"]);
    let made = run(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    assert_eq!(made.plan.clusters[0].endpoints, [at("10.0.0.1:8443")]);
    assert_eq!(made.backends[0].message, None);
}

#[test]
fn an_endpoints_port_is_used_with_a_remark_when_the_service_has_no_such_port() {
    let targets = target("apps", "a", &[("https", 8000, 443)], &["10.0.0.1"]);
    let made = run(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    assert_eq!(made.plan.clusters[0].endpoints, [at("10.0.0.1:443")]);
    assert_eq!(made.backends[0].ready_endpoints, 1);
    let message = made.backends[0].message.clone().unwrap();
    assert!(message.contains("used directly") && message.contains("8000/TCP"), "{message}");

    let targets = target("apps", "a", &[("https", 8000, 8443)], &["10.0.0.1"]);
    let made = run(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    assert!(made.plan.clusters[0].endpoints.is_empty());
    assert!(made.backends[0].message.clone().unwrap().contains("has no TCP port 443"));
}

#[test]
fn a_missing_service_leaves_the_others_alone() {
    let targets = target("apps", "a", &[("", 443, 443)], &["10.0.0.1"]);
    let made = run(&proxy(vec![backend("a", 443), backend("gone", 443)], vec![]), &[], &targets);
    assert_eq!(made.plan.clusters[0].endpoints.len(), 1);
    assert!(made.plan.clusters[1].endpoints.is_empty());
    let message = made.backends[1].message.clone().unwrap();
    assert!(message.contains("there is no Service apps/gone"), "{message}");
}

/// The grant of namespace `tools` that lets ProxyServers of `clusters` use this Service.
fn grants(service: &str) -> Grants {
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "proxies", "namespace": "tools"},
        "spec": {
            "from": [{"group": "causeway.dev", "kind": "ProxyServer", "namespace": "clusters"}],
            "to": [{"group": "", "kind": "Service", "name": service}],
        },
    });
    Grants::read(&[Arc::new(serde_json::from_value(grant).unwrap())])
}

#[test]
fn a_service_elsewhere_that_is_not_granted_is_not_carried() {
    let in_namespace = |name: &str, namespace: &str| Backend {
        target_port: 8443,
        target_namespace: namespace.into(),
        ..backend(name, 443)
    };
    let mut proxy = proxy(vec![in_namespace("api", "clusters"), in_namespace("web", "tools")], vec![]);
    proxy.metadata.namespace = Some("clusters".into());
    let (services, slices): (Vec<_>, Vec<_>) = [
        pair("clusters", "api", &[("", 8443, 8443)], &["10.0.0.1"]),
        pair("tools", "web", &[("", 8443, 8443)], &["10.0.0.2"]),
    ]
    .into_iter()
    .unzip();
    let carried = |targets: Services| {
        let made = run(&proxy, &[bind("127.0.0.1", Network::Pod)], &targets);
        assert_eq!(made.plan.validate(), []);
        let ready: Vec<_> = made.backends.iter().map(|b| b.ready_endpoints).collect();
        (ready, made.backends[1].message.clone())
    };
    let (ready, message) = carried(read(&services, &slices).granted_by(Grants::default()));
    assert_eq!(ready, [1, 0], "its own namespace needs no grant");
    assert!(message.unwrap().contains("create a ReferenceGrant in tools"));
    assert_eq!(carried(read(&services, &slices).granted_by(grants("db"))).0, [1, 0]);
    assert_eq!(carried(read(&services, &slices).granted_by(grants("web"))), (vec![1, 1], None));
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
    let made = run(&proxy(vec![backend("a", 443)], vec![]), &[], &targets);
    let seen: Vec<(String, bool, bool, bool)> = made.plan.clusters[0]
        .endpoints
        .iter()
        .map(|e| (e.address.to_string(), e.ready, e.serving, e.terminating))
        .collect();
    assert_eq!(
        seen,
        [
            ("10.0.0.1:8443".into(), true, true, false),
            ("10.0.0.2:8443".into(), false, true, true),
            ("10.0.0.3:8443".into(), false, false, false),
            ("[fd00::1]:8443".into(), true, true, false),
        ]
    );
    assert_eq!(made.backends[0].ready_endpoints, 2);
}

#[test]
fn every_field_of_a_backend_reaches_its_cluster() {
    let full = Backend {
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
    let mut proxy = proxy(vec![full], vec![]);
    proxy.spec.connection_limit = Some(1000);
    proxy.spec.drain_seconds = 5;
    let plan = run(&proxy, &[], &Services::default()).plan;
    assert_eq!(plan.limits.connections, ir::Limit::new(1000));
    assert_eq!(plan.drain_timeout, Duration::from_secs(5));
    insta::assert_json_snapshot!("every_field", plan.clusters[0]);
}

#[test]
fn what_was_known_of_a_namespace_is_used_with_a_remark_while_it_cannot_be_read() {
    let unread = |services: Services| {
        services.with_unread([("apps".to_owned(), "Services can't be read: forbidden".to_owned())].into())
    };
    let known = unread(target("apps", "a", &[("", 443, 443)], &["10.0.0.1"]));
    let made = run(&proxy(vec![backend("a", 443)], vec![]), &[], &known);
    assert_eq!((made.plan.clusters[0].endpoints.len(), made.backends[0].ready_endpoints), (1, 1));
    let says = "endpoints in namespace apps: the last known are used; Services can't be read: forbidden";
    assert_eq!(made.backends[0].message.as_deref(), Some(says));

    let made = run(&proxy(vec![backend("a", 443)], vec![]), &[], &unread(Services::default()));
    assert!(made.backends[0].message.as_ref().unwrap().contains("none are known"), "{made:?}");
}
