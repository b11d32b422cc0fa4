//! The proxy's own addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use causeway_api::{ProxyNetwork, ProxyServerSpec};
use ipnet::IpNet;

use super::Findings;

/// The address of a `serverIP`, without the prefix length that it may carry.
pub fn bare_address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| Some(text.parse::<IpNet>().ok()?.addr()))
}

/// An address with the prefix length that it is written with, or else with that of the first one, if it is on the same
/// network.
pub fn with_prefix(network: &ProxyNetwork, text: &str) -> Option<String> {
    if text.contains('/') {
        return Some(text.to_owned());
    }
    let (address, first): (IpAddr, IpNet) = (text.parse().ok()?, network.server_ip.as_ref()?.parse().ok()?);
    first.contains(&address).then(|| format!("{text}/{}", first.prefix_len()))
}

/// Whether it is written as the name of a network, which no host in it can have.
fn is_network(net: &IpNet) -> bool {
    net.prefix_len() + 1 < net.max_prefix_len() && net.addr() == net.network()
}

impl Findings<'_> {
    /// A namespace alone attaches nothing, and what is attached needs an address.
    pub(super) fn attachment(&mut self, network: &ProxyNetwork) {
        if let (Some(namespace), None) =
            (&network.network_attachment_namespace, &network.network_attachment_name)
        {
            let message = format!(
                "`{namespace}` alone attaches nothing: write networkAttachmentName too, or leave it out"
            );
            self.add("spec.networkConfig.networkAttachmentNamespace", message);
        }
        let needs_address =
            network.network_attachment_name.is_some() || !network.additional_server_ips.is_empty();
        if needs_address && network.server_ip.is_none() {
            let message = "is needed with networkAttachmentName and additionalServerIPs: write the address of the first proxy";
            self.add("spec.networkConfig.serverIP", message);
        }
    }

    /// The addresses that are ones.
    pub(super) fn addresses(&mut self, spec: &ProxyServerSpec) -> Vec<IpAddr> {
        let network = &spec.network_config;
        let mut seen: HashMap<IpAddr, String> = HashMap::new();
        let mut addresses = Vec::new();
        let first = network.server_ip.iter().map(|text| ("spec.networkConfig.serverIP".to_owned(), text));
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
            if let Some(network) = text.parse::<IpNet>().ok().filter(is_network) {
                let message = format!(
                    "{network} is a network and not an address in it: write the proxy's own, with the same prefix length"
                );
                self.add(&path, message);
            }
            if network.network_attachment_name.is_some() && with_prefix(network, text).is_none() {
                let message = format!(
                    "{text} does not say how long its network's prefix is: write it as {text}/{}, with the length of yours",
                    if address.is_ipv4() { 24 } else { 64 }
                );
                self.add(&path, message);
            }
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
        let count = network.addresses().count();
        let replicas = usize::try_from(spec.replicas).unwrap_or_default();
        if replicas == 0 {
            self.add("spec.replicas", "must be at least 1");
        } else if replicas > count && network.server_ip.is_some() {
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
