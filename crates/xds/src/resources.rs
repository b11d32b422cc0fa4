//! The plan as Envoy's own resources: pure functions, one module per type. A plan is expected to be valid and to have
//! no [`problems`].

mod access_log;
pub(crate) mod cluster;
pub(crate) mod endpoints;
mod filter_chains;
mod health_check;
pub(crate) mod listener;
mod matcher;
mod notes;
mod problems;
mod server_names;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use causeway_base::well_known::XDS_CLUSTER;
use causeway_ir::{Cluster, Keepalive, Period, Plan};
use envoy_types::pb::envoy::config::core::v3::socket_address::{PortSpecifier, Protocol};
use envoy_types::pb::envoy::config::core::v3::{Address, SocketAddress, TcpKeepalive, address};
use envoy_types::pb::google::protobuf::{self, UInt32Value};

pub use notes::notes;
pub use problems::problems;

/// The clusters of a plan by name.
pub(crate) type Clusters<'a> = HashMap<&'a str, &'a Cluster>;

/// Finds clusters by their names.
pub(crate) fn clusters(plan: &Plan) -> Clusters<'_> {
    plan.clusters.iter().map(|cluster| (cluster.name.as_str(), cluster)).collect()
}

/// The name of a plan's cluster in Envoy.
pub(crate) fn cluster_name(name: &str) -> String {
    // Clusters of the bootstrap can't be replaced by discovery.
    if name.trim_end_matches('_') == XDS_CLUSTER { format!("{name}_") } else { name.to_owned() }
}

fn duration(duration: Duration) -> protobuf::Duration {
    protobuf::Duration { seconds: duration.as_secs() as i64, nanos: duration.subsec_nanos() as i32 }
}

fn period(period: Period) -> protobuf::Duration {
    duration(period.get())
}

fn number(value: u32) -> UInt32Value {
    UInt32Value { value }
}

fn socket_address(address: SocketAddr, protocol: Protocol) -> Address {
    Address {
        address: Some(address::Address::SocketAddress(SocketAddress {
            protocol: protocol.into(),
            address: address.ip().to_string(),
            port_specifier: Some(PortSpecifier::PortValue(address.port().into())),
            ..SocketAddress::default()
        })),
    }
}

/// `None` switches keep-alive off. The system counts in seconds.
fn keepalive(keepalive: &Keepalive) -> Option<TcpKeepalive> {
    let seconds = |duration: Duration| number((duration.as_millis().div_ceil(1000)).max(1) as u32);
    (!keepalive.time.is_zero()).then(|| TcpKeepalive {
        keepalive_probes: Some(number(keepalive.probes.max(1))),
        keepalive_time: Some(seconds(keepalive.time)),
        keepalive_interval: Some(seconds(keepalive.interval)),
    })
}

#[cfg(test)]
mod tests;
