//! The proxy's own addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use causeway_api::ProxyServerSpec;
use ipnet::IpNet;

use super::Findings;

/// The address of a `serverIP`, without the prefix length that it may carry.
pub fn bare_address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| Some(text.parse::<IpNet>().ok()?.addr()))
}

impl Findings<'_> {
    /// The addresses that are ones.
    pub(super) fn addresses(&mut self, spec: &ProxyServerSpec) -> Vec<IpAddr> {
        let network = &spec.network_config;
        let mut seen: HashMap<IpAddr, String> = HashMap::new();
        let mut addresses = Vec::new();
        let first = std::iter::once(("spec.networkConfig.serverIP".to_owned(), &network.server_ip));
        let further = network
            .additional_server_ips
            .iter()
            .enumerate()
            .map(|(i, text)| (format!("spec.networkConfig.additionalServerIPs[{i}]"), text));
        for (path, text) in first.chain(further) {
            let Some(address) = bare_address(text) else {
                self.add(
                    path,
                    format!("`{text}` is not an address: write one like 192.168.100.5 or 192.168.100.5/24"),
                );
                continue;
            };
            if address.is_unspecified() || address.is_multicast() {
                self.add(
                    &path,
                    format!("{address} can't be a proxy's own address: write one of its network"),
                );
            }
            if let Some(other) = seen.get(&address) {
                self.add(&path, format!("{address} is already {other}: each replica needs its own"));
            } else {
                seen.insert(address, path);
            }
            addresses.push(address);
        }
        let count = 1 + network.additional_server_ips.len();
        let replicas = usize::try_from(spec.replicas).unwrap_or_default();
        if replicas == 0 {
            self.add("spec.replicas", "must be at least 1");
        } else if replicas > count {
            self.add(
                "spec.replicas",
                format!(
                    "{replicas} replicas need {replicas} addresses and there are {count}: list {} more in \
                     networkConfig.additionalServerIPs, or lower replicas",
                    replicas - count
                ),
            );
        }
        addresses
    }
}
