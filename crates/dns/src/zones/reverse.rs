//! Names of addresses (`….in-addr.arpa`, `….ip6.arpa`). The reverse networks of a view are zones; an address outside of them
//! that leads back to a name is a zone of its own, so that its neighbours are still asked elsewhere.

use std::net::IpAddr;

use causeway_ir::Pattern;
use causeway_ir::dns::View;
use causeway_ir::server_name::normalise;
use ipnet::IpNet;

use super::Zones;
use crate::wire::{kind, name};

/// For zones that no zone of the plan says anything of.
const TTL: u32 = 30;

pub(super) fn add(zones: &mut Zones, view: &View) {
    // An open zone is somebody else's.
    let first = view.zones.iter().find(|zone| !zone.open);
    let seconds = |ttl: Option<std::time::Duration>| ttl.map_or(TTL, |ttl| ttl.as_secs() as u32);
    let (ttl, negative) = (seconds(first.map(|zone| zone.ttl)), seconds(first.map(|zone| zone.negative_ttl)));
    let server = first.map_or_else(
        || "localhost".to_owned(),
        |zone| {
            zone.name_server
                .as_ref()
                .map_or_else(|| format!("ns.{}", normalise(&zone.domain)), |name| normalise(name))
        },
    );
    for network in &view.reverse {
        for (address, labels) in parts(*network) {
            let domain = domain(address, labels);
            if !zones.names.contains_key(&*domain) {
                zones.add_apex(&domain, (&server, false), ttl, negative);
            }
        }
    }
    for zone in &view.zones {
        for record in zone.records.iter().filter(|record| record.reverse) {
            let Pattern::Exact(target) = &record.name else { continue };
            for address in &record.addresses {
                let owner = owner(*address);
                if !zones.has(&owner) {
                    zones.add_apex(&owner, (&server, false), ttl, negative);
                }
                zones.add(&owner, kind::PTR, &name::from_text(target), zone.ttl.as_secs() as u32);
            }
        }
    }
}

impl Zones {
    /// Whether a zone has the name or could have it.
    fn has(&self, name: &[u8]) -> bool {
        !matches!(self.find(name), super::Found::Elsewhere)
    }
}

/// The name of an address.
fn owner(address: IpAddr) -> Box<[u8]> {
    domain(address, if address.is_ipv4() { 4 } else { 32 })
}

/// The domain of all addresses that begin with so many bytes (or half bytes, for IPv6) of this one.
fn domain(address: IpAddr, labels: usize) -> Box<[u8]> {
    let text = match address {
        IpAddr::V4(address) => {
            let bytes: Vec<String> = address.octets()[..labels].iter().rev().map(u8::to_string).collect();
            format!("{}.in-addr.arpa", bytes.join("."))
        }
        IpAddr::V6(address) => {
            let halves = address.octets().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
            let halves: Vec<String> = halves.take(labels).map(|half| format!("{half:x}")).collect();
            let halves: Vec<&str> = halves.iter().rev().map(String::as_str).collect();
            format!("{}.ip6.arpa", halves.join("."))
        }
    };
    name::from_text(&text).into()
}

/// The networks of whole labels that a network consists of, each with its number of labels.
fn parts(network: IpNet) -> Vec<(IpAddr, usize)> {
    let bits = if matches!(network, IpNet::V4(_)) { 8 } else { 4 };
    let labels = network.prefix_len().div_ceil(bits).max(1);
    let subnets = network.subnets(labels * bits);
    subnets.into_iter().flatten().map(|part| (part.network(), usize::from(labels))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_cut_at_labels() {
        let names = |network: &str| -> Vec<String> {
            let parts = parts(network.parse().unwrap()).into_iter();
            parts.map(|(address, labels)| name::to_text(&domain(address, labels))).collect()
        };
        assert_eq!(names("10.1.2.0/24"), ["2.1.10.in-addr.arpa."]);
        assert_eq!(names("10.1.2.0/23"), ["2.1.10.in-addr.arpa.", "3.1.10.in-addr.arpa."]);
        assert_eq!(names("10.1.2.4/31"), ["4.2.1.10.in-addr.arpa.", "5.2.1.10.in-addr.arpa."]);
        assert_eq!(names("fd00::/16"), ["0.0.d.f.ip6.arpa."]);
        let owner = name::to_text(&owner("fd00::1".parse().unwrap()));
        assert!(owner.starts_with("1.0.0.0.") && owner.ends_with("0.0.d.f.ip6.arpa."), "{owner}");
    }
}
