use causeway_api::{
    Backend, Engine, HealthCheck, Outcome, PortDefaults, PortProtocol, Protocol, ProxyNetwork, ProxyProtocol,
    Refusal,
};

use super::*;

fn problems(spec: &ProxyServerSpec) -> Vec<Problem> {
    validate(&ProxyServer::new("edge", spec.clone())).err().unwrap_or_default()
}

fn backend(name: &str, hostname: &str, port: u16) -> Backend {
    Backend {
        name: name.into(),
        hostname: hostname.into(),
        port,
        target_service: name.into(),
        target_port: 443,
        target_namespace: "apps".into(),
        ..Backend::default()
    }
}

fn spec(backends: Vec<Backend>) -> ProxyServerSpec {
    let network_config =
        ProxyNetwork { server_ip: Some("192.168.100.5/24".into()), ..ProxyNetwork::default() };
    ProxyServerSpec { network_config, backends, ..ProxyServerSpec::default() }
}

fn to(name: &str) -> Option<Outcome> {
    Some(Outcome { backend: Some(name.into()), refuse: None })
}

fn only(spec: &ProxyServerSpec) -> (String, String) {
    let mut found = problems(spec);
    assert_eq!(found.len(), 1, "{found:#?}");
    let problem = found.remove(0);
    (problem.path, problem.message)
}

#[test]
fn finds_nothing_in_a_good_spec() {
    let mut good = spec(vec![
        backend("a", "a.example.test", 443),
        backend("b", "*.example.test", 443),
        backend("c", "a.example.test", 6443),
        Backend { protocol: Protocol::Udp, ..backend("d", "dns.example.test", 443) },
    ]);
    good.ports = vec![PortDefaults {
        port: 443,
        plaintext: Some(Outcome { backend: None, refuse: Some(Refusal::Close) }),
        no_sni: to("a"),
        ..PortDefaults::default()
    }];
    let valid = validate(&ProxyServer::new("edge", good)).unwrap();
    let listeners: Vec<&str> = valid.listeners.iter().map(|listener| &*listener.name).collect();
    assert_eq!(listeners, ["edge-listener-443", "edge-listener-443-udp", "edge-listener-6443"]);
    assert_eq!(valid.addresses, ["192.168.100.5".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn names_both_entries_that_claim_one_name() {
    let mut second = backend("b", "b.example.test", 443);
    second.alternate_hostnames = vec!["x.example.test".into(), "A.Example.test.".into()];
    let (path, message) = only(&spec(vec![backend("a", "a.example.test", 443), second]));
    assert_eq!(path, "spec.backends[1].alternateHostnames[1]");
    assert!(message.contains("`b`") && message.contains("`a` at spec.backends[0].hostname"), "{message}");

    let wild = spec(vec![backend("a", "*.example.test", 443), backend("b", "*.Example.test", 443)]);
    assert!(only(&wild).1.contains("`*.example.test` on port 443"));
}

#[test]
fn an_outcome_needs_a_backend_of_its_port() {
    for (name, says) in [
        ("far", "is on port 6443, not on 443"),
        ("nobody", "on port 443 there is near"),
        ("datagrams", "carries UDP"),
    ] {
        let mut bad = spec(vec![
            backend("near", "near.test", 443),
            backend("far", "far.test", 6443),
            Backend { protocol: Protocol::Udp, ..backend("datagrams", "d.test", 443) },
        ]);
        bad.ports = vec![PortDefaults { port: 443, no_sni: to(name), ..PortDefaults::default() }];
        let (path, message) = only(&bad);
        assert_eq!(path, "spec.ports[0].noSNI.backend");
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn a_udp_port_has_room_for_one_backend() {
    let udp = |name: &str| Backend { protocol: Protocol::Udp, ..backend(name, "n.test", 53) };
    let (path, message) = only(&spec(vec![udp("a"), udp("b")]));
    assert_eq!(path, "spec.backends[1].port");
    assert!(message.contains("backend `a` (spec.backends[0])") && message.contains("`b`"), "{message}");
}

#[test]
fn what_is_for_connections_is_refused_with_udp() {
    let mut bad = spec(vec![Backend {
        protocol: Protocol::Udp,
        health_check: Some(HealthCheck { interval_seconds: 1, timeout_seconds: 1, ..HealthCheck::default() }),
        send_proxy_protocol: Some(ProxyProtocol::V2),
        ..backend("a", "a.test", 53)
    }]);
    bad.ports = vec![PortDefaults { port: 53, accept_proxy_protocol: true, ..PortDefaults::default() }];
    let paths: Vec<String> = problems(&bad).into_iter().map(|p| p.path).collect();
    assert_eq!(
        paths,
        ["spec.backends[0].sendProxyProtocol", "spec.backends[0].healthCheck", "spec.ports[0]"]
    );
}

#[test]
fn the_proxys_own_ports_are_taken() {
    for (port, says) in [(9901, "spec.adminPort"), (18000, "spec.xdsPort"), (8080, "health checks")] {
        let (path, message) = only(&spec(vec![backend("a", "a.test", port)]));
        assert_eq!(path, "spec.backends[0].port");
        assert!(message.contains(says) && message.contains("`a`"), "{message}");
    }
    let mut same = spec(vec![backend("a", "a.test", 443)]);
    same.admin_port = same.xds_port;
    assert_eq!(only(&same).0, "spec.adminPort");
}

#[test]
fn replicas_need_addresses_that_differ() {
    let mut bad = spec(vec![backend("a", "a.test", 443)]);
    bad.replicas = 3;
    bad.network_config.additional_server_ips = vec!["192.168.100.6".into()];
    let (path, message) = only(&bad);
    assert_eq!(path, "spec.replicas");
    assert!(message.contains("list 1 more"), "{message}");
    bad.network_config.additional_server_ips = vec!["192.168.100.5".into(), "nonsense".into()];
    let paths: Vec<String> = problems(&bad).into_iter().map(|p| p.path).collect();
    assert_eq!(
        paths,
        ["spec.networkConfig.additionalServerIPs[0]", "spec.networkConfig.additionalServerIPs[1]"]
    );
}

#[test]
fn an_address_on_an_attachment_says_how_long_its_prefix_is() {
    let mut spec = spec(vec![backend("a", "a.test", 443)]);
    spec.network_config.server_ip = Some("192.168.100.4".into());
    assert_eq!(problems(&spec), [], "the pod network gives no addresses");
    spec.network_config.network_attachment_name = Some("vlan".into());
    let (path, message) = only(&spec);
    assert_eq!(path, "spec.networkConfig.serverIP");
    assert!(message.contains("write it as 192.168.100.4/24"), "{message}");
    spec.network_config.server_ip = Some("192.168.100.4/25".into());
    spec.network_config.additional_server_ips = vec!["192.168.100.5".into(), "192.168.100.200".into()];
    let (path, message) = only(&spec);
    assert_eq!(path, "spec.networkConfig.additionalServerIPs[1]", "{message}");
    assert_eq!(
        with_prefix(&spec.network_config, "192.168.100.5").as_deref(),
        Some("192.168.100.5/25"),
        "as the first one"
    );
}

#[test]
fn says_every_problem_at_once() {
    let mut bad = spec(vec![backend("a", "10.0.0.1", 443), backend("a", "a..b", 443)]);
    bad.network_config.server_ip = Some("0.0.0.0".into());
    bad.ports =
        vec![PortDefaults { port: 443, plaintext: Some(Outcome::default()), ..PortDefaults::default() }];
    let paths: Vec<String> = problems(&bad).into_iter().map(|p| p.path).collect();
    assert_eq!(
        paths,
        [
            "spec.networkConfig.serverIP",
            "spec.backends[1].name",
            "spec.backends[0].hostname",
            "spec.backends[1].hostname",
            "spec.ports[0].plaintext"
        ]
    );
}

#[test]
fn numbers_must_be_positive_and_each_is_named() {
    let mut bad = spec(vec![Backend {
        timeout_seconds: 0,
        idle_timeout_seconds: Some(-1),
        connection_limit: Some(0),
        slow_start_seconds: Some(0),
        health_check: Some(HealthCheck { interval_seconds: 0, timeout_seconds: 0, ..HealthCheck::default() }),
        ..backend("a", "a.test", 443)
    }]);
    bad.connection_limit = Some(0);
    bad.connections_per_source = Some(0);
    bad.drain_seconds = -1;
    let paths: Vec<String> = problems(&bad).into_iter().map(|p| p.path).collect();
    let of_backend = [
        "timeoutSeconds",
        "idleTimeoutSeconds",
        "connectionLimit",
        "slowStartSeconds",
        "healthCheck.intervalSeconds",
        "healthCheck.timeoutSeconds",
    ];
    let expected: Vec<String> = ["spec.connectionLimit", "spec.connectionsPerSource", "spec.drainSeconds"]
        .map(str::to_owned)
        .into_iter()
        .chain(of_backend.map(|field| format!("spec.backends[0].{field}")))
        .collect();
    assert_eq!(paths, expected);
}

#[test]
fn connections_by_client_address_are_for_our_own_engine() {
    let mut limited = spec(vec![backend("a", "a.test", 443)]);
    limited.connections_per_source = Some(8);
    assert_eq!(problems(&limited), []);
    limited.engine = Some(Engine::Envoy);
    let found = problems(&limited);
    assert_eq!(found[0].path, "spec.connectionsPerSource");
    assert!(found[0].message.contains("engine: Native"), "{found:?}");
}

#[test]
fn who_writes_a_spec_is_told_where_its_author_finds_the_entry() {
    let merged = spec(vec![backend("a", "a.test", 443), backend("b", "A.test", 443)]);
    let at = |entry: Entry| match entry {
        Entry::Backend(index) => format!("spec.proxy.backends[{}]", index + 7),
        Entry::Port(index) => format!("spec.proxy.ports[{index}]"),
    };
    let found = check_backends(&merged, &at);
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(
        (finding.reason, finding.path.as_str()),
        (Reason::DuplicateHostname, "spec.proxy.backends[8].hostname")
    );
    assert!(finding.message.contains("at spec.proxy.backends[7].hostname"), "{}", finding.message);
}

#[test]
fn a_network_is_no_address_and_a_namespace_alone_no_attachment() {
    for (text, is_network) in [
        ("10.0.0.0/24", true),
        ("10.0.0.1/24", false),
        ("10.0.0.0/31", false),
        ("10.0.0.0/32", false),
        ("10.0.1.0/23", false),
        ("fd00::/64", true),
        ("fd00::1/64", false),
    ] {
        let mut spec = spec(vec![backend("a", "a.test", 443)]);
        spec.network_config.server_ip = Some(text.into());
        let found = problems(&spec);
        assert_eq!(!found.is_empty(), is_network, "{text}: {found:?}");
        assert!(found.iter().all(|p| p.message.contains("is a network")), "{found:?}");
    }
    let mut lonely = spec(vec![backend("a", "a.test", 443)]);
    lonely.network_config.network_attachment_namespace = Some("nets".into());
    let (path, message) = only(&lonely);
    assert_eq!(path, "spec.networkConfig.networkAttachmentNamespace");
    assert!(message.contains("`nets` alone"), "{message}");
}

#[test]
fn ports_without_backends_wait_for_routes() {
    let mut waiting = spec(vec![]);
    let tcp = PortDefaults { port: 5432, protocol: Some(PortProtocol::Tcp), ..PortDefaults::default() };
    waiting.ports = vec![PortDefaults { port: 6443, ..PortDefaults::default() }, tcp.clone()];
    let valid = validate(&ProxyServer::new("edge", waiting.clone())).unwrap();
    let ports: Vec<(u16, bool)> = valid.listeners.iter().map(|l| (l.port, l.protocol.is_some())).collect();
    assert_eq!(ports, [(443, true), (5432, false), (6443, true)]);

    waiting.ports[0].port = 9901;
    assert_eq!(only(&waiting).0, "spec.ports[0].port");
    let mut busy = spec(vec![backend("a", "a.test", 5432)]);
    busy.ports = vec![PortDefaults { plaintext: to("a"), ..tcp }];
    let paths: Vec<String> = problems(&busy).into_iter().map(|p| p.path).collect();
    assert_eq!(paths, ["spec.ports[0].protocol", "spec.ports[0].plaintext"]);
}
