//! A cluster without its endpoints, which come by EDS.

use std::time::Duration;

use causeway_ir::{Cluster, Ejection, Limit, Policy, ProxyVersion};
use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, LbConfig, LbPolicy, LeastRequestLbConfig,
    RoundRobinLbConfig, SlowStartConfig,
};
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::proxy_protocol_config::Version;
use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType;
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, ProxyProtocolConfig, TransportSocket,
};
use envoy_types::pb::envoy::extensions::transport_sockets::proxy_protocol::v3::ProxyProtocolUpstreamTransport;
use envoy_types::pb::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::util::pack_any;

use super::{cluster_name, duration, health_check, keepalive, number, period};

/// The share with which a slow start begins, in percent.
const LEAST_SHARE: f64 = 10.0;

/// The cluster resource.
pub(crate) fn build(cluster: &Cluster) -> envoy::Cluster {
    let name = cluster_name(&cluster.name);
    let (lb_policy, lb_config) = balancing(cluster);
    let unlimited = Some(number(u32::MAX));
    envoy::Cluster {
        alt_stat_name: stat_name(&name),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ConfigSource {
                resource_api_version: ApiVersion::V3.into(),
                config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
                ..ConfigSource::default()
            }),
            ..EdsClusterConfig::default()
        }),
        connect_timeout: Some(period(cluster.connect_timeout)),
        lb_policy: lb_policy.into(),
        lb_config,
        health_checks: cluster.health_check.iter().map(health_check::build).collect(),
        outlier_detection: ejection(&cluster.ejection),
        circuit_breakers: Some(envoy::CircuitBreakers {
            thresholds: vec![Thresholds {
                max_connections: Some(number(cluster.connection_limit.map_or(u32::MAX, Limit::get))),
                max_pending_requests: unlimited,
                max_requests: unlimited,
                max_retries: unlimited,
                ..Thresholds::default()
            }],
            ..envoy::CircuitBreakers::default()
        }),
        upstream_connection_options: keepalive(&cluster.keepalive).map(|tcp_keepalive| {
            envoy::UpstreamConnectionOptions {
                tcp_keepalive: Some(tcp_keepalive),
                ..envoy::UpstreamConnectionOptions::default()
            }
        }),
        transport_socket: cluster.send_proxy_protocol.map(proxy_protocol),
        // An endpoint that left the plan takes nothing more, healthy or not.
        ignore_health_on_host_removal: true,
        name,
        ..envoy::Cluster::default()
    }
}

/// Envoy takes what is before the first dot for the cluster's name in metrics.
fn stat_name(name: &str) -> String {
    if name.contains(['.', ':']) { name.replace(['.', ':'], "_") } else { String::new() }
}

fn balancing(cluster: &Cluster) -> (LbPolicy, Option<LbConfig>) {
    let slow_start_config = cluster.slow_start.map(|window| SlowStartConfig {
        slow_start_window: Some(period(window)),
        min_weight_percent: Some(Percent { value: LEAST_SHARE }),
        ..SlowStartConfig::default()
    });
    match cluster.policy {
        Policy::RoundRobin => {
            let config = slow_start_config.map(|config| {
                LbConfig::RoundRobinLbConfig(RoundRobinLbConfig { slow_start_config: Some(config) })
            });
            (LbPolicy::RoundRobin, config)
        }
        Policy::LeastConnections => {
            let config = LeastRequestLbConfig {
                choice_count: Some(number(2)),
                slow_start_config,
                ..LeastRequestLbConfig::default()
            };
            (LbPolicy::LeastRequest, Some(LbConfig::LeastRequestLbConfig(config)))
        }
        Policy::SourceHash => (LbPolicy::Maglev, None),
    }
}

/// Only failed connects count, and every ejection lasts equally long.
fn ejection(ejection: &Ejection) -> Option<envoy::OutlierDetection> {
    let never = Some(number(0));
    (ejection.consecutive_failures > 0).then(|| envoy::OutlierDetection {
        split_external_local_origin_errors: true,
        consecutive_local_origin_failure: Some(number(ejection.consecutive_failures)),
        enforcing_consecutive_local_origin_failure: Some(number(100)),
        base_ejection_time: Some(duration(ejection.time)),
        max_ejection_time: Some(duration(ejection.time)),
        max_ejection_percent: Some(number(100)),
        interval: Some(duration(Duration::from_secs(1))),
        enforcing_consecutive_5xx: never,
        enforcing_consecutive_gateway_failure: never,
        enforcing_success_rate: never,
        enforcing_local_origin_success_rate: never,
        enforcing_failure_percentage: never,
        enforcing_failure_percentage_local_origin: never,
        ..envoy::OutlierDetection::default()
    })
}

fn proxy_protocol(version: ProxyVersion) -> TransportSocket {
    let version = match version {
        ProxyVersion::V1 => Version::V1,
        ProxyVersion::V2 => Version::V2,
    };
    let raw = TransportSocket {
        name: "envoy.transport_sockets.raw_buffer".into(),
        config_type: Some(ConfigType::TypedConfig(pack_any(RawBuffer {}))),
    };
    TransportSocket {
        name: "envoy.transport_sockets.upstream_proxy_protocol".into(),
        config_type: Some(ConfigType::TypedConfig(pack_any(ProxyProtocolUpstreamTransport {
            config: Some(ProxyProtocolConfig { version: version.into(), ..ProxyProtocolConfig::default() }),
            transport_socket: Some(raw),
            ..ProxyProtocolUpstreamTransport::default()
        }))),
    }
}
