//! What happens to a connection once its way is known: forwarded to clusters, or refused.

use causeway_ir::{Action, Cluster, Limit, Policy, Refusal, Targets};
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain};
use envoy_types::pb::envoy::extensions::filters::network::connection_limit::v3::ConnectionLimit;
use envoy_types::pb::envoy::extensions::filters::network::direct_response::v3 as direct_response;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{
    ClusterSpecifier, WeightedCluster,
};
use envoy_types::pb::envoy::r#type::v3::HashPolicy;
use envoy_types::pb::envoy::r#type::v3::hash_policy::{PolicySpecifier, SourceIp};
use envoy_types::pb::google::protobuf::{Any, UInt64Value};
use envoy_types::util::pack_any;

use super::{Clusters, cluster_name, number, period};

/// The record with the fatal alert `unrecognized_name`.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The chain of a route, or of what no route matches; `None` for an action that has no translation.
pub(super) fn build(
    listener: &str,
    name: &str,
    limit: Option<Limit>,
    action: &Action,
    clusters: &Clusters<'_>,
) -> Option<FilterChain> {
    let stats = format!("{listener}/{name}");
    let last = match action {
        Action::Forward(targets) => forward(stats.clone(), targets, clusters)?,
        Action::Refuse(refusal) => refuse(*refusal),
        Action::Terminate(_) => return None,
    };
    let limit = limit.map(|limit| {
        let limit = ConnectionLimit {
            stat_prefix: stats,
            max_connections: Some(UInt64Value { value: limit.get().into() }),
            ..ConnectionLimit::default()
        };
        filter("envoy.filters.network.connection_limit", pack_any(limit))
    });
    let filters = limit.into_iter().chain([last]).collect();
    Some(FilterChain { name: name.to_owned(), filters, ..FilterChain::default() })
}

/// The clusters that get a share of the traffic, with it.
pub(super) fn shares<'a>(
    targets: &'a Targets,
    clusters: &Clusters<'a>,
) -> impl Iterator<Item = (&'a Cluster, u32)> {
    let with_share = targets.as_slice().iter().filter(|target| target.weight > 0);
    with_share.filter_map(|target| Some((*clusters.get(target.cluster.as_str())?, target.weight)))
}

/// Timeout and retries are those of the first cluster: Envoy has them by filter chain.
fn forward(stat_prefix: String, targets: &Targets, clusters: &Clusters<'_>) -> Option<Filter> {
    let shares: Vec<(&Cluster, u32)> = shares(targets, clusters).collect();
    let (first, _) = shares.first()?;
    let specifier = if shares.len() == 1 {
        ClusterSpecifier::Cluster(cluster_name(&first.name))
    } else {
        let weights = shares.iter().map(|(cluster, weight)| ClusterWeight {
            name: cluster_name(&cluster.name),
            weight: *weight,
            metadata_match: None,
        });
        ClusterSpecifier::WeightedClusters(WeightedCluster { clusters: weights.collect() })
    };
    let by_source = HashPolicy { policy_specifier: Some(PolicySpecifier::SourceIp(SourceIp {})) };
    let hashes = shares.iter().any(|(cluster, _)| cluster.policy == Policy::SourceHash);
    let proxy = TcpProxy {
        stat_prefix,
        cluster_specifier: Some(specifier),
        idle_timeout: Some(period(first.idle_timeout)),
        max_connect_attempts: Some(number(first.retries.saturating_add(1))),
        hash_policy: hashes.then_some(by_source).into_iter().collect(),
        ..TcpProxy::default()
    };
    Some(filter("envoy.filters.network.tcp_proxy", pack_any(proxy)))
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
