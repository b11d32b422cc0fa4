//! Endpoints of a cluster. Ready ones have priority 0, those that are leaving but still serve priority 1; what is
//! down is left out, because Envoy would try it when everything else is unhealthy.

use causeway_ir::{Address, Cluster, Endpoint};
use envoy_types::pb::envoy::config::core::v3::socket_address::Protocol;
use envoy_types::pb::envoy::config::core::v3::{self as core, Pipe, address};
use envoy_types::pb::envoy::config::endpoint::v3::cluster_load_assignment::Policy;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint as EnvoyEndpoint, LbEndpoint, LocalityLbEndpoints,
};

use super::{cluster_name, number, socket_address};

/// So large that a single healthy endpoint of 1,000 keeps all traffic in its priority: none spills to leaving ones.
const OVERPROVISIONING: u32 = 100_000;

/// The load assignment of a cluster.
pub(crate) fn build(cluster: &Cluster) -> ClusterLoadAssignment {
    let ready = |e: &&Endpoint| e.ready && !e.terminating;
    let leaving = |e: &&Endpoint| (e.terminating || !e.ready) && e.serving;
    let first: Vec<LbEndpoint> = cluster.endpoints.iter().filter(ready).filter_map(endpoint).collect();
    let second: Vec<LbEndpoint> = cluster.endpoints.iter().filter(leaving).filter_map(endpoint).collect();
    // Priorities must be without gaps: with nothing ready, those that leave are the first.
    let groups = [first, second].into_iter().filter(|group| !group.is_empty());
    let endpoints = groups.zip(0..).map(|(lb_endpoints, priority)| LocalityLbEndpoints {
        lb_endpoints,
        priority,
        ..LocalityLbEndpoints::default()
    });
    ClusterLoadAssignment {
        cluster_name: cluster_name(&cluster.name),
        endpoints: endpoints.collect(),
        policy: Some(Policy { overprovisioning_factor: Some(number(OVERPROVISIONING)), ..Policy::default() }),
        ..ClusterLoadAssignment::default()
    }
}

fn endpoint(endpoint: &Endpoint) -> Option<LbEndpoint> {
    let at = match &endpoint.address {
        Address::Socket(at) => socket_address(*at, Protocol::Tcp),
        Address::Unix(path) => {
            let pipe = Pipe { path: path.to_str()?.to_owned(), ..Pipe::default() };
            core::Address { address: Some(address::Address::Pipe(pipe)) }
        }
        Address::Place(_) => return None,
    };
    Some(LbEndpoint {
        load_balancing_weight: Some(number(endpoint.weight.get())),
        host_identifier: Some(HostIdentifier::Endpoint(EnvoyEndpoint {
            address: Some(at),
            ..EnvoyEndpoint::default()
        })),
        ..LbEndpoint::default()
    })
}
