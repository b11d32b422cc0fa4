//! What the DHCP and DNS servers of an Infra would find wrong with their specs, said of the fields here.

use causeway_api::{DHCPServer, DNSServer};
use causeway_ir::Problem;
use causeway_translate::{dhcp, dns};

use super::{Check, Dhcp, Dns, Network};
use crate::vlan::infra::{
    Component,
    desired::{build_dhcp, build_dns},
};

/// Where a field of a DHCPServer comes from.
const OF_DHCP: [(&str, &str); 8] = [
    ("spec.networkConfig.serverIP", "infraComponents.dhcp.serverIP"),
    ("spec.networkConfig.additionalServerIPs", "infraComponents.dhcp.additionalServerIPs"),
    ("spec.networkConfig.mtu", "infraComponents.dhcp.mtu"),
    ("spec.networkConfig.domain", "infraComponents.dns.baseDomain"),
    ("spec.networkConfig.searchDomains", "infraComponents.dns.baseDomain"),
    ("spec.networkConfig", "networkConfig"),
    ("spec.leaseConfig", "infraComponents.dhcp"),
    ("spec", "infraComponents.dhcp"),
];
/// Where a field of a DNSServer comes from.
const OF_DNS: [(&str, &str); 6] = [
    ("spec.networkConfig.serverIP", "infraComponents.dns.serverIP"),
    ("spec.networkConfig.proxyIP", "infraComponents.proxy.serverIP"),
    ("spec.networkConfig.internalProxyIP", "infraComponents.proxy.internalProxyService"),
    ("spec.hostedClusterDomain", "infraComponents.dns.baseDomain"),
    ("spec.upstreamDNS", "networkConfig.dnsServers"),
    ("spec", "infraComponents.dns"),
];

impl Check {
    /// Asks the servers, unless something is known to be wrong with their parts already.
    pub(crate) fn servers(
        &mut self,
        network: Option<&Network>,
        dhcp_part: Option<&Dhcp>,
        dns_part: Option<&Dns>,
    ) {
        let Some(network) = network else { return };
        let is_fine = |check: &Self, component| {
            !check.problems.iter().any(|found| found.components.contains(&component))
        };
        if let Some(part) = dhcp_part.filter(|_| is_fine(self, Component::Dhcp)) {
            let child = DHCPServer::new("dhcp", build_dhcp(network, part));
            self.adopt(Component::Dhcp, dhcp::validate(&child).err(), |path| origin(path, &OF_DHCP));
        }
        if let Some(part) = dns_part.filter(|_| is_fine(self, Component::Dns)) {
            let child = DNSServer::new("dns", build_dns("infra", network, part, None));
            let entries = &child.spec.static_entries;
            let written = |path: &str| {
                let (index, field) = path.strip_prefix("spec.staticEntries[")?.split_once(']')?;
                let name = &entries.get(index.parse::<usize>().ok()?)?.hostname;
                let index = part.spec.extra_entries.iter().position(|extra| extra.hostname == *name)?;
                Some(format!("infraComponents.dns.extraEntries[{index}]{field}"))
            };
            self.adopt(Component::Dns, dns::validate(&child).err(), |path| {
                written(path).unwrap_or_else(|| origin(path, &OF_DNS))
            });
        }
    }

    fn adopt(&mut self, component: Component, found: Option<Vec<Problem>>, place: impl Fn(&str) -> String) {
        for Problem { path, message } in found.into_iter().flatten() {
            let message = message.replace("spec.ipv6", "infraComponents.dhcp.ipv6");
            self.problem(&[component], place(&path), message);
        }
    }
}

/// The field here of a field of the child.
fn origin(path: &str, table: &[(&str, &str)]) -> String {
    let of = table.iter().find(|(front, _)| path.starts_with(front));
    of.map_or_else(|| path.to_owned(), |(front, field)| format!("{field}{}", &path[front.len()..]))
}
