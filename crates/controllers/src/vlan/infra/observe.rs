//! What the caches know of an Infra's children: each child's own report, the proxy's Service address, and the addresses
//! that were chosen before.

use std::net::IpAddr;

use causeway_api::{DHCPServer, DNSServer, Infra, InfraStatus, ProxyServer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, api::DynamicObject};

use super::{Component, addresses::Chosen};
use crate::framework::{
    apply::Owner,
    children::{Children, controller_uid, typed},
};

/// What a child says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChildReport {
    /// The generation of its spec.
    pub(crate) generation: i64,
    /// Its conditions.
    pub(crate) conditions: Vec<Condition>,
}

/// What is known of an Infra's surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// Each child's report, by component; none if there is no such child.
    pub(crate) children: [Option<ChildReport>; 3],
    /// Address of the proxy's Service on the pod network, once there is one.
    pub(crate) proxy_service_ip: Option<String>,
    /// The addresses that were chosen before.
    pub(crate) previous: Chosen,
}

/// Reads the caches; `status` is the newest status known of the Infra.
pub(crate) fn observe(infra: &Infra, owner: &Owner, status: &InfraStatus, children: &Children) -> Observed {
    let namespace = infra.namespace().unwrap_or_default();
    let child = |component: Component| {
        children
            .get(component.kind(), &namespace, &component.child_name(&infra.name_any()))
            .filter(|child| controller_uid(&**child) == Some(owner.uid()))
    };
    let [dhcp, dns, proxy] = Component::ALL.map(child);
    let reports = [&dhcp, &dns, &proxy].map(|child| child.as_deref().map(ChildReport::of));
    let dhcp: Option<DHCPServer> = dhcp.and_then(|child| typed(&child));
    let dns: Option<DNSServer> = dns.and_then(|child| typed(&child));
    let proxy: Option<ProxyServer> = proxy.and_then(|child| typed(&child));

    // The status is written after the children; should that have failed, the children themselves still remember.
    let recorded = status.addresses.clone().unwrap_or_default();
    let dhcp_ip = dhcp.as_ref().map(|child| child.spec.network_config.server_ip.clone());
    let dns_ip = dns.as_ref().map(|child| child.spec.network_config.server_ip.clone());
    let proxy_ip = proxy.as_ref().map(|child| child.spec.network_config.server_ip.clone());
    let range_start = dhcp.as_ref().map(|child| child.spec.lease_config.range_start.clone());
    let range_end = dhcp.as_ref().map(|child| child.spec.lease_config.range_end.clone());
    let previous = Chosen {
        servers: [
            recorded.dhcp.or(dhcp_ip).and_then(bare),
            recorded.dns.or(dns_ip).and_then(bare),
            recorded.proxy.or(proxy_ip).and_then(bare),
        ],
        range: recorded
            .range_start
            .or(range_start)
            .and_then(bare)
            .zip(recorded.range_end.or(range_end).and_then(bare)),
    };
    let proxy_service_ip =
        proxy.and_then(|proxy| proxy.status?.service_ip).filter(|ip| ip.parse::<IpAddr>().is_ok());
    Observed { children: reports, proxy_service_ip, previous }
}

impl ChildReport {
    /// Reads the report out of any child.
    pub(crate) fn of(child: &DynamicObject) -> Self {
        let conditions = child.data.pointer("/status/conditions").cloned().unwrap_or_default();
        Self {
            generation: child.metadata.generation.unwrap_or_default(),
            conditions: serde_json::from_value(conditions).unwrap_or_default(),
        }
    }
}

/// The address in `ADDRESS` or `ADDRESS/PREFIX`.
fn bare(text: String) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}
