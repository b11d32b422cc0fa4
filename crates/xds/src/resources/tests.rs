use causeway_ir::{Limit, Limits, Name, ProxyVersion};
use envoy_types::pb::envoy::config::core::v3::health_check::{HealthChecker, payload};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{
    ClusterSpecifier, WeightedCluster,
};
use envoy_types::util::pack_any;

use super::*;

fn plan(text: &str) -> Plan {
    let plan: Plan = serde_saphyr::from_str(text).unwrap();
    assert_eq!(plan.validate(), [], "{text}");
    plan
}

fn listener(text: &str) -> envoy_types::pb::envoy::config::listener::v3::Listener {
    let plan = plan(text);
    listener::build(&plan.listeners[0], &clusters(&plan), &plan.limits).unwrap()
}

fn cluster_named(name: &str) -> Cluster {
    Cluster::new(Name::parse(name).unwrap(), Vec::new())
}

const CLUSTERS: &str =
    "\nclusters: [{name: c}, {name: d, policy: sourceHash, retries: 0, idleTimeout: 1500ms}]";

#[test]
fn names_are_in_the_matcher_and_not_in_the_chains() {
    let made = listener(&format!(
        "listeners: [{{name: l, bind: '127.0.0.1:1', acceptProxyProtocol: {{}}, \
         protocol: {{tls: {{noServerName: {{forward: d}}, routes: [{{name: r, serverNames: [A.test, '*.b.test'], \
         action: {{forward: c}}, connectionLimit: 7}}]}}}}}}]{CLUSTERS}"
    ));
    let filters: Vec<&str> = made.listener_filters.iter().map(|filter| filter.name.as_str()).collect();
    assert_eq!(filters, ["envoy.filters.listener.proxy_protocol", "envoy.filters.listener.tls_inspector"]);
    let chains: Vec<(&str, Vec<&str>)> = made
        .filter_chains
        .iter()
        .map(|chain| (chain.name.as_str(), chain.filters.iter().map(|f| f.name.as_str()).collect()))
        .collect();
    let network = |name| format!("envoy.filters.network.{name}");
    let (limit, proxy, direct) =
        (network("connection_limit"), network("tcp_proxy"), network("direct_response"));
    assert_eq!(
        chains,
        [
            ("r", vec![limit.as_str(), &proxy]),
            ("(no server name)", vec![proxy.as_str()]),
            ("(unknown server name)", vec![direct.as_str()]),
            ("(plaintext)", vec![direct.as_str()]),
        ]
    );
    assert!(made.filter_chains.iter().all(|chain| chain.filter_chain_match.is_none()));
    let matcher = pack_any(made.filter_chain_matcher.unwrap()).value;
    let matcher = matcher.escape_ascii().to_string();
    for name in ["a.test", ".b.test"] {
        assert!(matcher.contains(name), "{matcher}");
    }
    assert_eq!(made.listener_filters_timeout, Some(period(Limits::default().handshake_timeout)));
}

#[test]
fn a_plain_port_is_never_sniffed() {
    let made = listener(&format!(
        "listeners: [{{name: l, bind: '[::]:22', protocol: {{tcp: {{name: all, action: {{forward: d}}}}}}}}]{CLUSTERS}"
    ));
    assert!(made.listener_filters.is_empty() && made.filter_chain_matcher.is_none());
    let bytes = format!("{:?}", made.filter_chains);
    assert!(bytes.contains("tcp_proxy"), "{bytes}");
    assert_eq!(made.tcp_keepalive.unwrap().keepalive_time, Some(number(60)));
}

#[test]
fn a_udp_listener_proxies_datagrams() {
    let made = listener(&format!(
        "listeners: [{{name: l, bind: '127.0.0.1:53', protocol: {{udp: {{name: all, action: {{forward: d}}}}}}}}]{CLUSTERS}"
    ));
    assert!(made.filter_chains.is_empty());
    assert_eq!(made.listener_filters[0].name, "envoy.filters.udp_listener.udp_proxy");
}

#[test]
fn what_leaves_is_second_and_what_is_down_is_left_out() {
    let plan = plan(
        "clusters: [{name: c, endpoints: [{address: '10.0.0.1:1', weight: 3}, {address: '10.0.0.2:1', terminating: true}, \
         {address: '10.0.0.3:1', ready: false}, {address: '10.0.0.4:1', ready: false, serving: false}]}]",
    );
    let made = endpoints::build(&plan.clusters[0]);
    let ports: Vec<(u32, Vec<(String, u32)>)> = made
        .endpoints
        .iter()
        .map(|group| {
            let hosts = group.lb_endpoints.iter().map(|host| {
                let Some(HostIdentifier::Endpoint(endpoint)) = &host.host_identifier else {
                    panic!("an endpoint")
                };
                let Some(address::Address::SocketAddress(at)) = &endpoint.address.as_ref().unwrap().address
                else {
                    panic!("an address")
                };
                (at.address.clone(), host.load_balancing_weight.unwrap().value)
            });
            (group.priority, hosts.collect())
        })
        .collect();
    let host = |text: &str, weight| (text.to_owned(), weight);
    assert_eq!(ports, [(0, vec![host("10.0.0.1", 3)]), (1, vec![host("10.0.0.2", 1), host("10.0.0.3", 1)])]);
}

#[test]
fn with_nothing_ready_those_that_leave_are_first() {
    let plan = plan("clusters: [{name: c, endpoints: [{address: '10.0.0.2:1', terminating: true}]}]");
    let priorities: Vec<u32> =
        endpoints::build(&plan.clusters[0]).endpoints.iter().map(|g| g.priority).collect();
    assert_eq!(priorities, [0]);
}

#[test]
fn clusters_are_unlimited_unless_the_plan_says_otherwise() {
    let mut one = cluster_named("c");
    let most = |cluster: &Cluster| {
        cluster::build(cluster).circuit_breakers.unwrap().thresholds[0].max_connections.unwrap().value
    };
    assert_eq!(most(&one), u32::MAX);
    one.connection_limit = Limit::new(5);
    assert_eq!(most(&one), 5);
}

#[test]
fn ejection_counts_failed_connects_alone() {
    let mut one = cluster_named("c");
    let detection = cluster::build(&one).outlier_detection.unwrap();
    assert_eq!(detection.consecutive_local_origin_failure, Some(number(5)));
    assert_eq!(detection.enforcing_consecutive_5xx, Some(number(0)));
    assert_eq!(detection.max_ejection_time, detection.base_ejection_time);
    one.ejection.consecutive_failures = 0;
    assert!(cluster::build(&one).outlier_detection.is_none());
}

#[test]
fn tls_is_asked_with_a_hello() {
    let plan = plan("clusters: [{name: c, healthCheck: {kind: tls, interval: 250ms}}]");
    let made = cluster::build(&plan.clusters[0]);
    let Some(HealthChecker::TcpHealthCheck(check)) = &made.health_checks[0].health_checker else {
        panic!("a TCP check")
    };
    let Some(payload::Payload::Text(sent)) = &check.send.as_ref().unwrap().payload else { panic!("hex") };
    assert!(sent.starts_with("160301") && sent.len() % 2 == 0, "{sent}");
    assert_eq!(made.health_checks[0].interval, Some(duration(Duration::from_millis(250))));
}

#[test]
fn names_that_envoy_can_not_use_are_changed() {
    assert_eq!(cluster_name("xds_cluster"), "xds_cluster_");
    assert_eq!(cluster_name("xds_cluster_"), "xds_cluster__");
    assert_eq!(cluster_name("api"), "api");
    assert_eq!(cluster::build(&cluster_named("a.b")).alt_stat_name, "a_b");
    assert_eq!(cluster::build(&cluster_named("a/b")).alt_stat_name, "");
}

#[test]
fn the_proxy_header_is_a_transport_socket() {
    let mut one = cluster_named("c");
    one.send_proxy_protocol = Some(ProxyVersion::V2);
    let socket = cluster::build(&one).transport_socket.unwrap();
    assert_eq!(socket.name, "envoy.transport_sockets.upstream_proxy_protocol");
}

#[test]
fn notes_say_what_is_not_carried_over() {
    assert_eq!(notes(&plan("{}")), Vec::<String>::new());
    let found = notes(&plan(
        "{limits: {connections: 5, newConnectionsPerSecond: 9}, listeners: [\
         {name: u, bind: '127.0.0.1:1', protocol: {udp: {name: r, connectionLimit: 1, action: {forward: a}}}}, \
         {name: t, bind: '127.0.0.1:1', protocol: {tls: {noServerName: {forward: b}, routes: [\
         {name: r, serverNames: [x.test], action: {forward: [{cluster: a}, {cluster: c}]}}]}}}], \
         clusters: [{name: a}, {name: b, keepalive: {time: 1s}}, {name: c, retries: 9}]}",
    ));
    for words in [
        "limits.connections (5)",
        "UDP listener u",
        "route u/r",
        "keepalive of cluster b",
        "retries of cluster c do not count on route t/r",
    ] {
        assert!(found.iter().any(|note| note.contains(words)), "{words}: {found:#?}");
    }
}

#[test]
fn shares_become_weighted_clusters_and_none_is_left_out_but_those_without_a_share() {
    let made = listener(
        "{listeners: [{name: l, bind: '127.0.0.1:1', protocol: {tcp: {name: all, action: {forward: [\
         {cluster: a, weight: 3}, {cluster: b}, {cluster: none, weight: 0}]}}}}], \
         clusters: [{name: a, retries: 0}, {name: b}, {name: none}]}",
    );
    let Some(ConfigType::TypedConfig(config)) = &made.filter_chains[0].filters[0].config_type else {
        panic!("a filter")
    };
    let weight = |name: &str, weight| ClusterWeight { name: name.into(), weight, metadata_match: None };
    let weighted = WeightedCluster { clusters: vec![weight("a", 3), weight("b", 1)] };
    let expected = TcpProxy {
        stat_prefix: "l/all".into(),
        cluster_specifier: Some(ClusterSpecifier::WeightedClusters(weighted)),
        idle_timeout: Some(duration(Duration::from_hours(1))),
        // That of the first.
        max_connect_attempts: Some(number(1)),
        ..TcpProxy::default()
    };
    assert_eq!(*config, pack_any(expected));
}

#[test]
fn sources_are_in_the_matcher_of_every_protocol() {
    let text = |protocol: &str| {
        format!(
            "listeners: [{{name: l, bind: '127.0.0.1:1', allowedSources: [10.0.0.0/8, 'fd00::/8'], \
             protocol: {{{protocol}}}}}]{CLUSTERS}"
        )
    };
    for protocol in [
        "tcp: {name: all, action: {forward: d}}",
        "udp: {name: all, action: {forward: d}}",
        "tls: {noServerName: {forward: d}, routes: []}",
    ] {
        let made = pack_any(listener(&text(protocol))).value.escape_ascii().to_string();
        for part in ["SourceIPInput", "10.0.0.0", "fd00::", "matchers.ip"] {
            assert!(made.contains(part), "{protocol}: {part}: {made}");
        }
    }
    let trusting = text("tcp: {name: all, action: {forward: d}}")
        .replace("allowedSources: [10.0.0.0/8, 'fd00::/8']", "acceptProxyProtocol: {from: [192.0.2.0/24]}");
    let made = pack_any(listener(&trusting)).value.escape_ascii().to_string();
    assert!(made.contains("DirectSourceIPInput") && made.contains("192.0.2.0"), "{made}");
}

#[test]
fn a_unix_socket_is_a_pipe() {
    let plan = plan("clusters: [{name: c, endpoints: [{address: 'unix:/run/app.sock'}]}]");
    assert_eq!(problems(&plan), []);
    let made = endpoints::build(&plan.clusters[0]);
    let Some(HostIdentifier::Endpoint(endpoint)) = &made.endpoints[0].lb_endpoints[0].host_identifier else {
        panic!("an endpoint")
    };
    let Some(address::Address::Pipe(pipe)) = &endpoint.address.as_ref().unwrap().address else {
        panic!("a pipe")
    };
    assert_eq!(pipe.path, "/run/app.sock");
}

#[test]
fn what_envoy_can_not_run_is_refused_by_its_path() {
    let plan: Plan = serde_saphyr::from_str(
        "listeners:
- {name: h, bind: '127.0.0.1:1', protocol: {http: {routes: []}}}
- name: t
  bind: 127.0.0.1:2
  protocol:
    tls:
      routes:
      - {name: fine, serverNames: [a.test], action: {forward: c}}
      - name: ends
        serverNames: [b.test]
        action: {terminate: {certificates: [b], then: {tcp: {name: in, action: {forward: c}}}}}
      plaintext: {terminate: {certificates: [b], then: {tcp: {name: in, action: {forward: c}}}}}
- {name: u, bind: '127.0.0.1:3', protocol: {udp: {name: all, action: {forward: [{cluster: c}, {cluster: d}]}}}}
- {name: r, bind: '127.0.0.1:4', protocol: {udp: {name: all, action: {refuse: close}}}}
clusters:
- {name: c, transport: {tls: {}}}
- {name: d, transport: {link: home}, endpoints: [{address: '10.0.0.1:1'}, {address: 'place:web'}]}
links:
- {name: home, meet: {listen: '127.0.0.1:5'}, identity: i, authorities: a}
limits: {connectionsPerSource: 8}
onRemoval: keep",
    )
    .unwrap();
    let found = problems(&plan);
    let paths: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "limits.connectionsPerSource",
            "onRemoval",
            "links[0]",
            "listeners[0].protocol.http",
            "listeners[1].protocol.tls.routes[1].action.terminate",
            "listeners[1].protocol.tls.plaintext.terminate",
            "listeners[2].protocol.udp.action.forward",
            "listeners[3].protocol.udp.action",
            "clusters[0].transport.tls",
            "clusters[1].transport.link",
            "clusters[1].endpoints[1].address",
        ]
    );
    assert!(found.iter().all(|problem| problem.message.contains("Envoy")), "{found:#?}");
}
