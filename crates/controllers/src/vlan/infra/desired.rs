//! The children that an Infra should have. Pure: the same spec and observations give the same objects.

use std::net::IpAddr;

use causeway_api::{
    DHCPServer, DHCPServerSpec, DNSServer, DNSServerSpec, DhcpNetwork, DnsNetwork, Infra, LeaseConfig,
    ProxyNetwork, ProxyServer, ProxyServerSpec, names,
};
use ipnet::IpNet;
use kube::{Resource, ResourceExt};

use super::{
    Component,
    observe::Observed,
    validate::{Dhcp, Dns, Network, Proxy, Requested, Valid},
};
use crate::framework::{apply::Wanted, children::ChildKind};

/// The children as they should be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desired {
    /// The DHCP server.
    pub(crate) dhcp: Option<DHCPServer>,
    /// The DNS server.
    pub(crate) dns: Option<DNSServer>,
    /// The proxy.
    pub(crate) proxy: Option<ProxyServer>,
    /// Children that are neither changed nor removed, because their part of the spec has problems.
    pub(crate) keep: Vec<(ChildKind, String)>,
}

impl Desired {
    /// The children for the applier.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let dhcp = self.dhcp.iter().map(|child| Wanted::new(Component::Dhcp.kind(), child));
        let dns = self.dns.iter().map(|child| Wanted::new(Component::Dns.kind(), child));
        let proxy = self.proxy.iter().map(|child| Wanted::new(Component::Proxy.kind(), child));
        dhcp.chain(dns).chain(proxy).collect()
    }
}

/// What the Infra's spec asks for.
pub(crate) fn desired(infra: &Infra, valid: &Valid, observed: &Observed) -> Desired {
    let name = infra.name_any();
    let mut desired = Desired::default();
    for (component, is_invalid) in [
        (Component::Dhcp, valid.dhcp == Requested::Invalid),
        (Component::Dns, valid.dns == Requested::Invalid),
        (Component::Proxy, valid.proxy == Requested::Invalid),
    ] {
        if is_invalid {
            desired.keep.push((component.kind(), component.child_name(&name)));
        }
    }
    let Some(network) = &valid.network else {
        return desired;
    };
    if let Requested::Enabled(dhcp) = &valid.dhcp {
        let child = DHCPServer::new(&Component::Dhcp.child_name(&name), build_dhcp(network, dhcp));
        desired.dhcp = Some(labelled(child, Component::Dhcp));
    }
    if let Requested::Enabled(dns) = &valid.dns {
        let child = DNSServer::new(
            &Component::Dns.child_name(&name),
            build_dns(&name, network, dns, observed.proxy_service_ip.as_ref()),
        );
        desired.dns = Some(labelled(child, Component::Dns));
    }
    if let Requested::Enabled(proxy) = &valid.proxy {
        let child = ProxyServer::new(&Component::Proxy.child_name(&name), build_proxy(network, proxy));
        desired.proxy = Some(labelled(child, Component::Proxy));
    }
    desired
}

fn labelled<K: Resource>(mut child: K, component: Component) -> K {
    child.labels_mut().insert(names::LABEL_COMPONENT.to_owned(), component.field().to_owned());
    child
}

pub(crate) fn build_dhcp(network: &Network, dhcp: &Dhcp) -> DHCPServerSpec {
    let spec = &dhcp.spec;
    DHCPServerSpec {
        network_config: DhcpNetwork {
            cidr: network.cidr.to_string(),
            gateway: network.gateway.to_string(),
            server_ip: dhcp.address.to_string(),
            additional_server_ips: dhcp.additional.iter().map(ToString::to_string).collect(),
            dns_servers: dhcp.resolvers.clone(),
            domain: dhcp.domain.clone(),
            search_domains: dhcp.domain.iter().cloned().collect(),
            mtu: spec.mtu,
            network_attachment_name: Some(network.attachment.clone()),
            network_attachment_namespace: Some(network.attachment_namespace.clone()),
            ..DhcpNetwork::default()
        },
        lease_config: LeaseConfig {
            range_start: dhcp.range.0.to_string(),
            range_end: dhcp.range.1.to_string(),
            lease_time: spec.lease_time.clone(),
            ..LeaseConfig::default()
        },
        options: spec.options.clone(),
        reservations: spec.reservations.clone(),
        clients: spec.clients,
        replicas: spec.replicas,
        ipv6: spec.ipv6.clone(),
        privileges: spec.privileges.clone(),
        image: spec.image.clone(),
        pod_template: spec.pod_template.clone(),
        ..DHCPServerSpec::default()
    }
}

pub(crate) fn build_dns(
    infra: &str,
    network: &Network,
    dns: &Dns,
    proxy_service: Option<&String>,
) -> DNSServerSpec {
    // Without a proxy there is nothing that the pod network could be sent to.
    let proxy_service = dns.proxy.and(proxy_service.cloned());
    DNSServerSpec {
        network_config: DnsNetwork {
            server_ip: dns.address.to_string(),
            proxy_ip: dns.proxy.map(|address| address.to_string()),
            internal_proxy_ip: dns.internal_proxy.clone().or(proxy_service),
            secondary_network_cidr: Some(network.cidr.to_string()),
            network_attachment_name: Some(network.attachment.clone()),
            network_attachment_namespace: Some(network.attachment_namespace.clone()),
            ..DnsNetwork::default()
        },
        hosted_cluster_domain: dns.domain.clone(),
        static_entries: dns.entries.clone(),
        upstream_dns: network.resolvers.clone(),
        // Also while there is none, so that one that comes or goes changes nothing here.
        lease_names_of: Some(Component::Dhcp.child_name(infra)),
        image: dns.spec.image.clone(),
        pod_template: dns.spec.pod_template.clone(),
        ..DNSServerSpec::default()
    }
}

fn build_proxy(network: &Network, proxy: &Proxy) -> ProxyServerSpec {
    let spec = &proxy.spec;
    ProxyServerSpec {
        network_config: ProxyNetwork {
            server_ip: Some(with_prefix(proxy.address, &network.cidr)),
            additional_server_ips: proxy
                .additional
                .iter()
                .map(|ip| with_prefix(*ip, &network.cidr))
                .collect(),
            network_attachment_name: Some(network.attachment.clone()),
            network_attachment_namespace: Some(network.attachment_namespace.clone()),
        },
        backends: proxy.backends.clone(),
        ports: proxy.ports.clone(),
        engine: spec.engine,
        replicas: spec.replicas,
        proxy_image: spec.proxy_image.clone(),
        manager_image: spec.manager_image.clone(),
        pod_template: spec.pod_template.clone(),
        update_policy: spec.update_policy,
        ..ProxyServerSpec::default()
    }
}

/// A `ProxyServer` does not know its network, so its address says the prefix.
fn with_prefix(address: IpAddr, network: &IpNet) -> String {
    format!("{address}/{}", network.prefix_len())
}

#[cfg(test)]
mod tests;
