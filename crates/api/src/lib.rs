//! The custom resources of Causeway, group `causeway.dev`, version `v1alpha1`: types, schemas, conditions, names.
//! A crate of its own because controllers, API server and binary share it, and because it must never see a client.
//! The doc comments of fields become the descriptions that `kubectl explain` shows, so they speak to users.

#![warn(missing_docs)]
// Every `printcolumn(…)` has the same keys; the lint takes that for a mistake.
#![allow(clippy::duplicated_attributes)]

mod address_claim;
pub mod conditions;
mod container_network;
mod container_network_tunnel_proxy;
mod dhcp_server;
mod dns_server;
mod domain_claim;
mod gateway_hostname_request;
mod gateway_parameters;
mod gateway_plan;
mod hostname_grant;
mod hostname_zone;
mod infra;
mod intercept_request;
pub mod names;
mod pod_template;
mod proxy_server;
mod rules;
mod schema;
mod server_replica;
mod server_status;
mod structural;
mod supply;
mod traffic_policy;
mod workstation;

pub use address_claim::{AddressClaim, AddressClaimSpec, ClaimHolder};
pub use container_network::{
    ContainerNetwork, ContainerNetworkSpec, ContainerNetworkState, ContainerNetworkStatus, NetworkMode,
};
pub use container_network_tunnel_proxy::{
    ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxySpec, ContainerNetworkTunnelProxyStatus, Tunnel,
    TunnelProtocol, TunnelProxyState, TunnelState, TunnelStatus,
};
pub use dhcp_server::{
    ClientSource, DHCPServer, DHCPServerSpec, DHCPServerStatus, DhcpBoot, DhcpIpv6, DhcpNetwork, DhcpOption,
    DhcpPrivileges, DhcpReservation, DhcpRoute, LeaseConfig, OptionType,
};
pub use dns_server::{DNSServer, DNSServerSpec, DNSServerStatus, DnsNetwork, StaticEntry};
pub use domain_claim::{ClaimOwner, DomainClaim, DomainClaimSpec, DomainClaimStatus};
pub use gateway_hostname_request::{
    Environment, GatewayHostnameRequest, GatewayHostnameRequestSpec, GatewayHostnameRequestStatus,
    NameHolder, PublishedCertificate, PublishedRecord, Visibility,
};
pub use gateway_parameters::{
    ExternalTrafficPolicy, GatewayParameters, GatewayParametersSpec, GatewayParametersStatus,
    GatewayServiceType, GatewayTraces,
};
pub use gateway_plan::{GatewayPlan, GatewayPlanSpec, GatewayPlanStatus, GatewayReplica};
pub use hostname_grant::{HostnameGrant, HostnameGrantSpec, HostnameGrantStatus};
pub use hostname_zone::{
    ChallengeKind, DnsProviderKind, HostnameZone, HostnameZoneSpec, HostnameZoneStatus, IssuerKind,
    ZoneCertificates, ZoneDns,
};
pub use infra::{
    BackendOverride, ComponentStatus, DhcpComponent, DnsComponent, ExtraEntry, Infra, InfraComponents,
    InfraNetwork, InfraSpec, InfraStatus, ProxyComponent, ServerAddresses,
};
pub use intercept_request::{
    HeaderMatch, HealthCheckTarget, HttpMatch, InterceptMode, InterceptRequest, InterceptRequestSpec,
    InterceptRequestStatus, InterceptState, MatchType, Method, PathMatch,
};
pub use pod_template::{PodTemplate, Resources};
pub use proxy_server::{
    AllowedRoutes, Backend, BackendStatus, Balancing, Engine, HealthCheck, HealthCheckKind, LogLevel,
    Outcome, PortDefaults, PortProtocol, Protocol, ProxyNetwork, ProxyProtocol, ProxyServer, ProxyServerSpec,
    ProxyServerStatus, Refusal, ReplicaStatus, RouteNamespaces, RoutesFrom, SupplyStatus, UpdatePolicy,
};
pub use server_replica::{LeaseCounts, ServerReplica};
pub use server_status::ServerStatus;
pub use structural::structural;
pub use supply::{PlanPart, RouteKind, SuppliedRoute, SuppliedService, SuppliedTarget, Supply, SupplySpec};
pub use traffic_policy::{
    ClientRateLimit, DirectResponse, ErrorPage, Failover, ForwardedHeader, PolicyAncestor, PolicyAncestorRef,
    PolicyTarget, RegexRewrite, StandbyBackend, TrafficPolicy, TrafficPolicySpec, TrafficPolicyStatus,
    TrustedProxies,
};
pub use workstation::{
    ConnectionWay, StowawayPods, Workstation, WorkstationConnection, WorkstationSpec, WorkstationStatus,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The definitions of every kind, in the order they are documented.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        Infra::crd(),
        ProxyServer::crd(),
        DNSServer::crd(),
        DHCPServer::crd(),
        ContainerNetwork::crd(),
        ContainerNetworkTunnelProxy::crd(),
        Workstation::crd(),
        InterceptRequest::crd(),
        GatewayHostnameRequest::crd(),
        DomainClaim::crd(),
        HostnameGrant::crd(),
        HostnameZone::crd(),
        GatewayParameters::crd(),
        TrafficPolicy::crd(),
        Supply::crd(),
        GatewayPlan::crd(),
        AddressClaim::crd(),
    ];
    all.iter_mut().for_each(structural);
    all.iter_mut().for_each(labelled);
    all
}

/// Whose definition it is and of which version, so that a newer one is known as such.
fn labelled(crd: &mut CustomResourceDefinition) {
    let labels = [(names::LABEL_PART_OF, names::PART_OF), (names::LABEL_VERSION, env!("CARGO_PKG_VERSION"))];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    crd.metadata.labels.get_or_insert_default().extend(labels);
}

#[cfg(test)]
mod tests;
