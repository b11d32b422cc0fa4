//! A listener with its routes.

use std::time::Duration;

use causeway_ir::{Cluster, Keepalive, Limits, Listener, Outcome, Policy, Protocol, Sniff};
use envoy_types::pb::envoy::config::core::v3::socket_address::Protocol as Transport;
use envoy_types::pb::envoy::config::listener::v3 as envoy;
use envoy_types::pb::envoy::config::listener::v3::ListenerFilter;
use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::listener::local_ratelimit::v3::LocalRateLimit;
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3::ProxyProtocol;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::hash_policy::PolicySpecifier;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::{
    HashPolicy, RouteSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::{Route, UdpProxyConfig};
use envoy_types::pb::envoy::r#type::v3::TokenBucket;
use envoy_types::pb::google::protobuf::{Any, BoolValue};
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{OnMatch, on_match};
use envoy_types::util::pack_any;

use super::server_names::{self, NO_SERVER_NAME, PLAINTEXT, UNKNOWN_SERVER_NAME};
use super::{Clusters, access_log, address, cluster_name, duration, filter_chains, keepalive, number};

/// The listener resource; `None` only for a plan that is not valid.
pub fn build(listener: &Listener, clusters: &Clusters<'_>, limits: &Limits) -> Option<envoy::Listener> {
    match listener.protocol {
        Protocol::Tcp => tcp(listener, clusters, limits),
        Protocol::Udp => udp(listener, clusters),
    }
}

/// The clusters that a listener may send to, in the order of the plan.
pub fn targets(listener: &Listener) -> impl Iterator<Item = &str> {
    let outcomes = [&listener.no_server_name, &listener.unknown_server_name, &listener.plaintext];
    let outcomes = outcomes.into_iter().filter(|_| listener.sniff == Sniff::Tls);
    listener.routes.iter().map(|route| route.cluster.as_str()).chain(outcomes.filter_map(|outcome| {
        match outcome {
            Outcome::Cluster(name) => Some(name.as_str()),
            Outcome::Refuse(_) => None,
        }
    }))
}

/// Keep-alive towards clients: the plan has it by cluster, Envoy by listener.
pub fn client_keepalive<'a>(listener: &Listener, clusters: &Clusters<'a>) -> Option<&'a Keepalive> {
    targets(listener).find_map(|name| clusters.get(name)).map(|cluster| &cluster.keepalive)
}

fn tcp(listener: &Listener, clusters: &Clusters<'_>, limits: &Limits) -> Option<envoy::Listener> {
    let mut listener_filters: Vec<ListenerFilter> =
        limits.new_connections_per_second.map(rate).into_iter().collect();
    if listener.accept_proxy_protocol {
        let config = pack_any(ProxyProtocol::default());
        listener_filters.push(filter("envoy.filters.listener.proxy_protocol", config));
    }
    let mut filter_chains = Vec::with_capacity(listener.routes.len() + 3);
    for route in &listener.routes {
        filter_chains.push(filter_chains::route(&listener.name, route, clusters)?);
    }
    let mut filter_chain_matcher = None;
    if listener.sniff == Sniff::Tls {
        let config = pack_any(TlsInspector::default());
        listener_filters.push(filter("envoy.filters.listener.tls_inspector", config));
        filter_chain_matcher = Some(server_names::matcher(listener));
        for (name, outcome) in [
            (NO_SERVER_NAME, &listener.no_server_name),
            (UNKNOWN_SERVER_NAME, &listener.unknown_server_name),
            (PLAINTEXT, &listener.plaintext),
        ] {
            filter_chains.push(filter_chains::outcome(&listener.name, name, outcome, clusters)?);
        }
    }
    Some(envoy::Listener {
        name: listener.name.clone(),
        stat_prefix: stat_prefix(&listener.name),
        address: Some(address(listener.address()?, Transport::Tcp)),
        listener_filters,
        listener_filters_timeout: Some(duration(limits.handshake_timeout)),
        filter_chains,
        filter_chain_matcher,
        access_log: vec![access_log::stream(&listener.name)],
        tcp_keepalive: client_keepalive(listener, clusters).and_then(keepalive),
        ..envoy::Listener::default()
    })
}

fn udp(listener: &Listener, clusters: &Clusters<'_>) -> Option<envoy::Listener> {
    let cluster: &Cluster = clusters.get(listener.routes.first()?.cluster.as_str())?;
    let by_source = HashPolicy { policy_specifier: Some(PolicySpecifier::SourceIp(true)) };
    let route = server_names::extension("route", pack_any(Route { cluster: cluster_name(&cluster.name) }));
    let always = OnMatch { on_match: Some(on_match::OnMatch::Action(route)), ..OnMatch::default() };
    let proxy = UdpProxyConfig {
        stat_prefix: stat_prefix(&listener.name),
        idle_timeout: Some(duration(cluster.idle_timeout)),
        hash_policies: (cluster.policy == Policy::SourceHash).then_some(by_source).into_iter().collect(),
        access_log: vec![access_log::datagram(&listener.name)],
        route_specifier: Some(RouteSpecifier::Matcher(Matcher {
            on_no_match: Some(Box::new(always)),
            matcher_type: None,
        })),
        ..UdpProxyConfig::default()
    };
    Some(envoy::Listener {
        name: listener.name.clone(),
        stat_prefix: stat_prefix(&listener.name),
        address: Some(address(listener.address()?, Transport::Udp)),
        listener_filters: vec![filter("envoy.filters.udp_listener.udp_proxy", pack_any(proxy))],
        // Sessions live in a worker, so each worker needs a socket of its own.
        enable_reuse_port: Some(BoolValue { value: true }),
        ..envoy::Listener::default()
    })
}

/// A second's worth may come at once.
fn rate(per_second: u32) -> ListenerFilter {
    let limit = LocalRateLimit {
        stat_prefix: "new_connections".into(),
        token_bucket: Some(TokenBucket {
            max_tokens: per_second,
            tokens_per_fill: Some(number(per_second)),
            fill_interval: Some(duration(Duration::from_secs(1))),
        }),
        ..LocalRateLimit::default()
    };
    filter("envoy.filters.listener.local_ratelimit", pack_any(limit))
}

/// Metrics have names of words with dots between.
fn stat_prefix(name: &str) -> String {
    name.replace(['.', ':'], "_")
}

fn filter(name: &str, config: Any) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..ListenerFilter::default()
    }
}
