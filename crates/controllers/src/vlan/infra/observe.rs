//! What the caches know of an Infra's children: each child's own report, the proxy's Service address, and the addresses
//! that were chosen before.

use std::net::IpAddr;

use causeway_api::{AddressClaim, DHCPServer, DNSServer, Infra, InfraStatus, ProxyServer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, api::DynamicObject};

use super::{Component, addresses::Chosen};
use crate::framework::{
    apply::Owner,
    children::{Children, controller_uid, typed},
};
use crate::vlan::{claims, network::Networks, server::Server as _};

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
    /// Addresses on its attachment that others have.
    pub(crate) claimed: Vec<IpAddr>,
    /// Ranges that others hand out there.
    pub(crate) ranges: Vec<(IpAddr, IpAddr)>,
    /// Whether a server runs with the range that was chosen before.
    pub(crate) is_range_in_use: bool,
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
    let proxy_ip = proxy.as_ref().and_then(|child| child.spec.network_config.server_ip.clone());
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
    let leases = dhcp.as_ref().and_then(|child| child.status.as_ref());
    let networks = Networks::of(children);
    Observed {
        children: reports,
        proxy_service_ip,
        previous,
        claimed: claimed(infra, children, &networks),
        ranges: ranges(infra, owner, children, &networks),
        is_range_in_use: leases.is_some_and(|status| status.accepted_generation.is_some()),
    }
}

/// What others have claimed on the Infra's network. What they only ask for is not theirs.
fn claimed(infra: &Infra, children: &Children, networks: &Networks) -> Vec<IpAddr> {
    let there = super::attachment(infra);
    let is_own = |claim: &AddressClaim| {
        let holder = &claim.spec.holder;
        let names = Component::ALL.map(|component| component.child_name(&infra.name_any()));
        Some(&holder.namespace) == infra.namespace().as_ref() && names.contains(&holder.name)
    };
    let claims =
        claims::of(children).filter(|claim| !is_own(claim)).filter_map(|claim| claims::place(&claim));
    let on_it = claims.filter(|(attachment, _)| networks.are_one(attachment, &there));
    on_it.map(|(_, address)| address).collect()
}

/// What DHCP servers of others hand out on the Infra's network: of those that have an address there. Anybody can write the
/// name of an attachment that he may not use.
fn ranges(infra: &Infra, owner: &Owner, children: &Children, networks: &Networks) -> Vec<(IpAddr, IpAddr)> {
    let there = super::attachment(infra);
    let holds = |claim: &AddressClaim| {
        claims::place(claim).is_some_and(|(place, _)| networks.are_one(&place, &there))
    };
    let holders: Vec<String> =
        claims::of(children).filter(holds).map(|claim| claim.spec.holder.uid).collect();
    let others = children.all(Component::Dhcp.kind()).into_iter();
    let others = others
        .filter(|child| controller_uid(&**child) != Some(owner.uid()))
        .filter(|child| child.uid().is_some_and(|uid| holders.contains(&uid)));
    let range = |child: DHCPServer| {
        let lease = &child.spec.lease_config;
        (child.attachment().is_some_and(|at| networks.are_one(&at, &there)))
            .then(|| bare(lease.range_start.clone()).zip(bare(lease.range_end.clone())))
            .flatten()
    };
    others.filter_map(|child| range(typed(&child)?)).collect()
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

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::framework::kinds::ADDRESS_CLAIM;
    use crate::vlan::infra::fixture;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn claim(address: &str, holder: &str, uid: &str) -> DynamicObject {
        object(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "AddressClaim",
            "metadata": { "name": address, "namespace": "clusters" },
            "spec": {
                "networkAttachmentName": "vlan100", "address": address,
                "holder": { "kind": "DHCPServer", "namespace": "clusters", "name": holder, "uid": uid },
            },
        }))
    }

    #[test]
    fn what_others_only_ask_for_is_not_theirs() {
        let server = |name: &str, address: &str, first: &str| {
            object(json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer",
                "metadata": { "name": name, "namespace": "far", "uid": name },
                "spec": {
                    "networkConfig": {
                        "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "serverIP": address,
                        "networkAttachmentName": "vlan100", "networkAttachmentNamespace": "clusters",
                    },
                    "leaseConfig": { "rangeStart": first, "rangeEnd": "192.168.100.254" },
                },
            }))
        };
        let servers = vec![
            server("asks", "192.168.100.2", "192.168.100.5"),
            server("has", "192.168.100.9", "192.168.100.200"),
        ];
        let claims = vec![claim("192.168.100.2", "lab-dhcp", "own"), claim("192.168.100.9", "has", "has")];
        let empty = [Component::Dns, Component::Proxy].map(|component| (component.kind(), Vec::new()));
        let caches = [(Component::Dhcp.kind(), servers), (ADDRESS_CLAIM, claims)];
        let children = Children::fixed(&caches.into_iter().chain(empty).collect::<Vec<_>>());
        let infra = fixture::infra(&fixture::all());
        let owner = Owner::of(&infra).unwrap();
        let observed = observe(&infra, &owner, &InfraStatus::default(), &children);
        assert_eq!(observed.claimed, ["192.168.100.9".parse::<IpAddr>().unwrap()]);
        let range = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(observed.ranges, [(range("192.168.100.200"), range("192.168.100.254"))]);
    }
}
