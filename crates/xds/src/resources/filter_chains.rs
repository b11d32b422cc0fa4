//! What happens to a connection once its way is known: forwarded to a cluster, or refused.

use causeway_ir::{Cluster, Outcome, Policy, Refusal, Route};
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain};
use envoy_types::pb::envoy::extensions::filters::network::connection_limit::v3::ConnectionLimit;
use envoy_types::pb::envoy::extensions::filters::network::direct_response::v3 as direct_response;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use envoy_types::pb::envoy::r#type::v3::HashPolicy;
use envoy_types::pb::envoy::r#type::v3::hash_policy::{PolicySpecifier, SourceIp};
use envoy_types::pb::google::protobuf::{Any, UInt64Value};
use envoy_types::util::pack_any;

use super::{Clusters, cluster_name, duration, number};

/// The record with the fatal alert `unrecognized_name`.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The chain of a route.
pub fn route(listener: &str, route: &Route, clusters: &Clusters<'_>) -> Option<FilterChain> {
    let cluster = clusters.get(route.cluster.as_str())?;
    let stats = format!("{listener}/{}", route.name);
    let limit = route.connection_limit.map(|limit| {
        let limit = ConnectionLimit {
            stat_prefix: stats.clone(),
            max_connections: Some(UInt64Value { value: limit.into() }),
            ..ConnectionLimit::default()
        };
        filter("envoy.filters.network.connection_limit", pack_any(limit))
    });
    let filters = limit.into_iter().chain([proxy(stats, cluster)]).collect();
    Some(FilterChain { name: route.name.clone(), filters, ..FilterChain::default() })
}

/// The chain for what no route matches.
pub fn outcome(
    listener: &str,
    name: &str,
    outcome: &Outcome,
    clusters: &Clusters<'_>,
) -> Option<FilterChain> {
    let last = match outcome {
        Outcome::Cluster(cluster) => proxy(format!("{listener}/{name}"), clusters.get(cluster.as_str())?),
        Outcome::Refuse(refusal) => refuse(*refusal),
    };
    Some(FilterChain { name: name.to_owned(), filters: vec![last], ..FilterChain::default() })
}

fn proxy(stat_prefix: String, cluster: &Cluster) -> Filter {
    let by_source = HashPolicy { policy_specifier: Some(PolicySpecifier::SourceIp(SourceIp {})) };
    let proxy = TcpProxy {
        stat_prefix,
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster_name(&cluster.name))),
        idle_timeout: Some(duration(cluster.idle_timeout)),
        max_connect_attempts: Some(number(cluster.retries.saturating_add(1))),
        hash_policy: (cluster.policy == Policy::SourceHash).then_some(by_source).into_iter().collect(),
        ..TcpProxy::default()
    };
    filter("envoy.filters.network.tcp_proxy", pack_any(proxy))
}

fn refuse(refusal: Refusal) -> Filter {
    let response = (refusal == Refusal::Alert).then(|| DataSource {
        specifier: Some(Specifier::InlineBytes(UNRECOGNIZED_NAME.to_vec())),
        ..DataSource::default()
    });
    filter("envoy.filters.network.direct_response", pack_any(direct_response::Config { response }))
}

fn filter(name: &str, config: Any) -> Filter {
    Filter { name: name.to_owned(), config_type: Some(ConfigType::TypedConfig(config)) }
}
