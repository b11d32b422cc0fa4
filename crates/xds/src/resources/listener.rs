//! A listener with its routes.

use std::time::Duration;

use causeway_ir::{Action, ConnectionRoute, Keepalive, Limit, Limits, Listener, Policy, Protocol, Tls};
use envoy_types::pb::envoy::config::core::v3::socket_address::Protocol as Transport;
use envoy_types::pb::envoy::config::listener::v3 as envoy;
use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, ListenerFilter};
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
use envoy_types::pb::xds::r#type::matcher::v3::matcher::OnMatch;
use envoy_types::util::pack_any;

use super::matcher::{self, Source};
use super::{
    Clusters, access_log, cluster_name, duration, filter_chains, keepalive, number, period, server_names,
    socket_address,
};

/// The listener resource; `None` only for a plan that is not valid or has problems.
pub(crate) fn build(
    listener: &Listener,
    clusters: &Clusters<'_>,
    limits: &Limits,
) -> Option<envoy::Listener> {
    match &listener.protocol {
        Protocol::Tcp(route) => tcp(listener, route, clusters, limits),
        Protocol::Tls(by_name) => tls(listener, by_name, clusters, limits),
        Protocol::Udp(route) => udp(listener, route, clusters),
        Protocol::Http(_) => None,
    }
}

/// The clusters that a listener may send to, in the order of the plan.
pub(crate) fn targets(listener: &Listener) -> impl Iterator<Item = &str> {
    listener.actions().flat_map(|(_, action)| action.targets()).map(|target| target.cluster.as_str())
}

/// Keep-alive towards clients: the plan has it by cluster, Envoy by listener.
pub(super) fn client_keepalive<'a>(listener: &Listener, clusters: &Clusters<'a>) -> Option<&'a Keepalive> {
    targets(listener).find_map(|name| clusters.get(name)).map(|cluster| &cluster.keepalive)
}

fn tcp(
    listener: &Listener,
    route: &ConnectionRoute,
    clusters: &Clusters<'_>,
    limits: &Limits,
) -> Option<envoy::Listener> {
    let chain =
        filter_chains::build(&listener.name, &route.name, route.connection_limit, &route.action, clusters)?;
    let built = stream(listener, clusters, limits, vec![chain]);
    let way = guarded(listener, matcher::chain(&route.name));
    // Without a matcher everything takes the only chain.
    let filter_chain_matcher = matcher::is_matcher(&way).then(|| matcher::root(way));
    Some(envoy::Listener { filter_chain_matcher, ..built })
}

fn tls(listener: &Listener, tls: &Tls, clusters: &Clusters<'_>, limits: &Limits) -> Option<envoy::Listener> {
    let mut chains = Vec::with_capacity(tls.routes.len() + 3);
    for route in &tls.routes {
        let limit = route.connection_limit;
        chains.push(filter_chains::build(&listener.name, &route.name, limit, &route.action, clusters)?);
    }
    for (name, action) in tls.outcomes() {
        chains.push(filter_chains::build(&listener.name, name, None, action, clusters)?);
    }
    let mut built = stream(listener, clusters, limits, chains);
    let inspector = pack_any(TlsInspector::default());
    built.listener_filters.push(filter("envoy.filters.listener.tls_inspector", inspector));
    let way = guarded(listener, matcher::nested(server_names::matcher(tls)));
    Some(envoy::Listener { filter_chain_matcher: Some(matcher::root(way)), ..built })
}

/// What all listeners of connections have.
fn stream(
    listener: &Listener,
    clusters: &Clusters<'_>,
    limits: &Limits,
    filter_chains: Vec<FilterChain>,
) -> envoy::Listener {
    let rate = limits.new_connections_per_second.map(rate);
    let header = listener
        .accept_proxy_protocol
        .as_ref()
        .map(|_| filter("envoy.filters.listener.proxy_protocol", pack_any(ProxyProtocol::default())));
    envoy::Listener {
        name: listener.name.to_string(),
        stat_prefix: stat_prefix(&listener.name),
        address: Some(socket_address(listener.bind, Transport::Tcp)),
        listener_filters: rate.into_iter().chain(header).collect(),
        listener_filters_timeout: Some(period(limits.handshake_timeout)),
        filter_chains,
        access_log: vec![access_log::stream(&listener.name)],
        tcp_keepalive: client_keepalive(listener, clusters).and_then(keepalive),
        ..envoy::Listener::default()
    }
}

/// The way of connections behind what the listener demands of their sources; what matches nothing is closed.
fn guarded(listener: &Listener, inner: OnMatch) -> OnMatch {
    let allowed = matcher::only(Source::Client, &listener.allowed_sources, inner);
    match &listener.accept_proxy_protocol {
        Some(accept) => matcher::only(Source::Peer, &accept.from, allowed),
        None => allowed,
    }
}

fn udp(listener: &Listener, route: &ConnectionRoute, clusters: &Clusters<'_>) -> Option<envoy::Listener> {
    let Action::Forward(targets) = &route.action else { return None };
    let (cluster, _) = filter_chains::shares(targets, clusters).next()?;
    let by_source = HashPolicy { policy_specifier: Some(PolicySpecifier::SourceIp(true)) };
    let way = matcher::extension("route", pack_any(Route { cluster: cluster_name(&cluster.name) }));
    let way = matcher::only(Source::Client, &listener.allowed_sources, matcher::action(way));
    let proxy = UdpProxyConfig {
        stat_prefix: stat_prefix(&listener.name),
        idle_timeout: Some(period(cluster.idle_timeout)),
        hash_policies: (cluster.policy == Policy::SourceHash).then_some(by_source).into_iter().collect(),
        access_log: vec![access_log::datagram(&listener.name)],
        route_specifier: Some(RouteSpecifier::Matcher(matcher::root(way))),
        ..UdpProxyConfig::default()
    };
    Some(envoy::Listener {
        name: listener.name.to_string(),
        stat_prefix: stat_prefix(&listener.name),
        address: Some(socket_address(listener.bind, Transport::Udp)),
        listener_filters: vec![filter("envoy.filters.udp_listener.udp_proxy", pack_any(proxy))],
        // Sessions live in a worker, so each worker needs a socket of its own.
        enable_reuse_port: Some(BoolValue { value: true }),
        ..envoy::Listener::default()
    })
}

/// A second's worth may come at once.
fn rate(per_second: Limit) -> ListenerFilter {
    let limit = LocalRateLimit {
        stat_prefix: "new_connections".into(),
        token_bucket: Some(TokenBucket {
            max_tokens: per_second.get(),
            tokens_per_fill: Some(number(per_second.get())),
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
