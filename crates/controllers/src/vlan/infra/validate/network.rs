//! The network and the addresses in it, as an Infra's spec writes them: each must be a host address of the network, and
//! no two may meet.

use std::net::IpAddr;

use causeway_api::{DhcpComponent, DnsComponent, Infra, ProxyComponent};
use causeway_translate::proxy::bare_address;
use ipnet::IpNet;

use super::{Check, Network};
use crate::vlan::infra::{
    Component,
    addresses::{self, Request},
    attachment,
    observe::Observed,
};

impl Check {
    pub(crate) fn network(&mut self, infra: &Infra) -> Option<Network> {
        let spec = &infra.spec.network_config;
        let Ok(cidr) = spec.cidr.parse::<IpNet>() else {
            let message = format!("\"{}\" is not a network: write one like 192.168.100.0/24", spec.cidr);
            self.problem(&Component::ALL, "networkConfig.cidr", message);
            return None;
        };
        let cidr = cidr.trunc();
        let gateway = spec.gateway.parse::<IpAddr>().ok();
        let Some(gateway) = gateway.filter(|gateway| addresses::is_host(&cidr, *gateway)) else {
            let message = format!(
                "\"{}\" is not a host address in {cidr}: write the router's address in it",
                spec.gateway
            );
            self.problem(&Component::ALL, "networkConfig.gateway", message);
            return None;
        };
        let attachment = attachment(infra);
        Some(Network {
            cidr,
            gateway,
            attachment: attachment.name,
            attachment_namespace: attachment.namespace,
            resolvers: spec.dns_servers.clone(),
        })
    }

    /// Checks the written addresses against the network and each other, and asks for the others.
    pub(crate) fn addresses(
        &mut self,
        network: &Network,
        dhcp: Option<&DhcpComponent>,
        dns: Option<&DnsComponent>,
        proxy: Option<&ProxyComponent>,
        observed: &Observed,
    ) -> Request {
        let written_range = dhcp.and_then(|dhcp| self.range(network, dhcp));
        let mut used: Vec<(IpAddr, String)> = vec![(network.gateway, "networkConfig.gateway".to_owned())];
        let mut written = [None; 3];
        let servers = [
            (Component::Dhcp, dhcp.and_then(|dhcp| dhcp.server_ip.as_deref())),
            (Component::Dns, dns.and_then(|dns| dns.server_ip.as_deref())),
            (Component::Proxy, proxy.and_then(|proxy| proxy.server_ip.as_deref())),
        ];
        for (slot, (component, text)) in written.iter_mut().zip(servers) {
            let field = format!("infraComponents.{}.serverIP", component.field());
            *slot =
                text.and_then(|text| self.address(network, component, field, text, written_range, &mut used));
        }
        let mut taken = Vec::new();
        for (index, text) in dhcp.iter().flat_map(|dhcp| &dhcp.additional_server_ips).enumerate() {
            let field = format!("infraComponents.dhcp.additionalServerIPs[{index}]");
            taken.extend(self.address(network, Component::Dhcp, field, text, written_range, &mut used));
        }
        for (index, text) in proxy.iter().flat_map(|proxy| &proxy.additional_server_ips).enumerate() {
            let field = format!("infraComponents.proxy.additionalServerIPs[{index}]");
            taken.extend(self.address(network, Component::Proxy, field, text, written_range, &mut used));
        }
        let reserved = dhcp.map_or_else(Vec::new, |dhcp| self.reserved(dhcp, &used, observed));
        Request {
            network: network.cidr,
            gateway: network.gateway,
            written,
            taken,
            claimed: observed.claimed.clone(),
            reserved,
            written_range,
            others: observed.ranges.clone(),
            previous: observed.previous.clone(),
            is_range_in_use: observed.is_range_in_use,
        }
    }

    fn address(
        &mut self,
        network: &Network,
        component: Component,
        field: String,
        text: &str,
        range: Option<(IpAddr, IpAddr)>,
        used: &mut Vec<(IpAddr, String)>,
    ) -> Option<IpAddr> {
        let cidr = network.cidr;
        let address = bare_address(text);
        let Some(address) = address.filter(|address| addresses::is_host(&cidr, *address)) else {
            let message = format!(
                "\"{text}\" is not a host address in {cidr}: write one, or leave it out to have one chosen"
            );
            self.problem(&[component], field, message);
            return None;
        };
        if let Some((_, other)) = used.iter().find(|(other, _)| *other == address) {
            let message = format!("{address} is also spec.{other}: write another address, or leave it out");
            self.problem(&[component], field, message);
            return None;
        }
        if let Some((start, end)) = range.filter(|range| addresses::in_range(*range, address)) {
            let message = format!(
                "{address} is one of the addresses that DHCP hands out ({start} to {end}): write one outside, or a shorter range"
            );
            self.problem(&[component, Component::Dhcp], field, message);
            return None;
        }
        used.push((address, field));
        Some(address)
    }

    /// The addresses of clients, none of which may be a server's; texts that are no addresses are the DHCP server's to tell.
    fn reserved(
        &mut self,
        dhcp: &DhcpComponent,
        used: &[(IpAddr, String)],
        observed: &Observed,
    ) -> Vec<IpAddr> {
        let mut reserved = Vec::new();
        for (index, written) in dhcp.reservations.iter().enumerate() {
            let Ok(address) = written.ip.parse::<IpAddr>() else { continue };
            let written =
                used.iter().find(|(other, _)| *other == address).map(|(_, field)| format!("spec.{field}"));
            let chosen = observed.previous.servers.contains(&Some(address));
            let chosen = chosen.then(|| "the address of a server of this Infra".to_owned());
            let Some(other) = written.or(chosen) else {
                reserved.push(address);
                continue;
            };
            let field = format!("infraComponents.dhcp.reservations[{index}].ip");
            self.problem(&[Component::Dhcp], field, format!("{address} is also {other}: reserve another"));
        }
        reserved
    }

    fn range(&mut self, network: &Network, dhcp: &DhcpComponent) -> Option<(IpAddr, IpAddr)> {
        let cidr = network.cidr;
        let (start, end) = match (&dhcp.range_start, &dhcp.range_end) {
            (None, None) => return None,
            (Some(start), Some(end)) => (start, end),
            (start, _) => {
                let missing = if start.is_some() { "rangeEnd" } else { "rangeStart" };
                let message = "write rangeStart and rangeEnd together, or neither to have the range chosen";
                self.problem(&[Component::Dhcp], format!("infraComponents.dhcp.{missing}"), message);
                return None;
            }
        };
        let mut ends = [None; 2];
        for (slot, (name, text)) in ends.iter_mut().zip([("rangeStart", start), ("rangeEnd", end)]) {
            *slot = text.parse::<IpAddr>().ok().filter(|address| addresses::is_host(&cidr, *address));
            if slot.is_none() {
                let message = format!("\"{text}\" is not a host address in {cidr}: write one that is");
                self.problem(&[Component::Dhcp], format!("infraComponents.dhcp.{name}"), message);
            }
        }
        let (start, end) = ends[0].zip(ends[1])?;
        if start > end {
            let message = format!("{end} comes before rangeStart {start}: swap the two");
            self.problem(&[Component::Dhcp], "infraComponents.dhcp.rangeEnd", message);
            return None;
        }
        if addresses::in_range((start, end), network.gateway) {
            let message = format!(
                "the range {start} to {end} holds the gateway {}: leave it out of it",
                network.gateway
            );
            self.problem(&[Component::Dhcp], "infraComponents.dhcp.rangeStart", message);
            return None;
        }
        Some((start, end))
    }
}
