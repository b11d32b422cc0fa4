//! What laptops may reach in the cluster. Nothing by itself; what is denied wins; and what only the machine's own processes
//! should ever reach (loopback, the network's own addresses, the cloud's metadata) is reached only if exactly that is allowed,
//! never because a larger network is. What counts is the address that a name leads to, not the name.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

/// What may be reached, and what names mean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Addresses that may be reached: those of Services and pods.
    pub addresses: HashSet<IpAddr>,
    /// Networks that may be reached.
    pub networks: Vec<IpNet>,
    /// Networks that may not be reached, whatever else is said: those of nodes.
    pub denied: Vec<IpNet>,
    /// What names mean, in small letters and without a dot at their end.
    pub names: HashMap<String, Vec<IpAddr>>,
    /// Whether other names are looked up where the cluster's end runs. What they lead to has to be allowed all the same.
    pub outside_names: bool,
}

/// Networks that a larger one never includes.
static RESERVED: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let all = [
        // This machine.
        "0.0.0.0/8",
        "127.0.0.0/8",
        "::/128",
        "::1/128",
        // This network: metadata of most clouds, and more of its kind.
        "169.254.0.0/16",
        "fe80::/10",
        // Metadata elsewhere: Oracle, Alibaba, and Amazon in IPv6.
        "192.0.0.192/32",
        "100.100.100.200/32",
        "fd00:ec2::254/128",
        // Everybody.
        "224.0.0.0/4",
        "255.255.255.255/32",
        "ff00::/8",
    ];
    all.iter().filter_map(|network| network.parse().ok()).collect()
});

impl Reach {
    /// Whether an address may be reached.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        // An IPv6 address that stands for an IPv4 one is no way around what holds for that.
        self.allows_exactly(address) && embedded(address).is_none_or(|inner| !self.forbids(inner.into()))
    }

    fn allows_exactly(&self, address: IpAddr) -> bool {
        if self.is_denied(address) {
            return false;
        }
        if self.addresses.contains(&address) {
            return true;
        }
        let reserved = reserved(address);
        let counts = |network: &&IpNet| reserved.is_none_or(|reserved| reserved.contains(*network));
        self.networks.iter().filter(|network| network.contains(&address)).any(|network| counts(&network))
    }

    /// Whether nobody would be let there even if everything was allowed.
    fn forbids(&self, address: IpAddr) -> bool {
        self.is_denied(address) || (reserved(address).is_some() && !self.allows_exactly(address))
    }

    fn is_denied(&self, address: IpAddr) -> bool {
        self.denied.iter().any(|network| network.contains(&address))
    }

    /// What a name means here, if it means anything.
    pub(super) fn named(&self, name: &str) -> Option<&[IpAddr]> {
        self.names.get(name).map(Vec::as_slice)
    }
}

fn reserved(address: IpAddr) -> Option<&'static IpNet> {
    RESERVED.iter().find(|network| network.contains(&address))
}

/// The IPv4 address that a translator or a relay makes of an IPv6 address (NAT64, 6to4, and the old compatible form).
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let ([0x64, 0xff9b, 0, 0, 0, 0, high, low]
    | [0x64, 0xff9b, 1, _, _, _, high, low]
    | [0x2002, high, low, ..]
    | [0, 0, 0, 0, 0, 0, high, low]) = address.segments()
    else {
        return None;
    };
    // This machine and nothing have addresses of that form, too, and no other meaning.
    let is_own = address == Ipv6Addr::LOCALHOST || address == Ipv6Addr::UNSPECIFIED;
    (!is_own).then(|| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(addresses: &[&str], networks: &[&str], denied: &[&str]) -> Reach {
        let nets = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect();
        Reach {
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
            networks: nets(networks),
            denied: nets(denied),
            ..Reach::default()
        }
    }

    fn allows(reach: &Reach, address: &str) -> bool {
        reach.allows(address.parse().unwrap())
    }

    #[test]
    fn nothing_is_reached_by_itself() {
        for address in ["10.0.0.1", "8.8.8.8", "127.0.0.1", "fd00::1", "::1", "0.0.0.0"] {
            assert!(!allows(&Reach::default(), address), "{address}");
        }
    }

    #[test]
    fn what_is_denied_wins() {
        let reach = reach(&["10.0.0.5", "10.1.0.1"], &["10.1.0.0/16"], &["10.0.0.0/24", "10.1.7.0/24"]);
        for (address, wanted) in [
            ("10.1.0.1", true),
            ("10.1.2.3", true),
            ("10.1.7.3", false),
            ("10.0.0.5", false),
            ("10.2.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.5", false),
        ] {
            assert_eq!(allows(&reach, address), wanted, "{address}");
        }
    }

    #[test]
    fn a_large_network_does_not_include_what_is_reserved() {
        let all = reach(&[], &["0.0.0.0/0", "::/0"], &["172.18.0.0/16"]);
        for (address, wanted) in [
            ("8.8.8.8", true),
            ("2001:db8::1", true),
            ("169.254.169.254", false),
            ("169.254.1.1", false),
            ("127.0.0.1", false),
            ("127.1.2.3", false),
            ("::1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
            ("100.100.100.200", false),
            ("192.0.0.192", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("ff02::1", false),
            ("172.18.0.2", false),
            ("::ffff:169.254.169.254", false),
            ("::ffff:127.0.0.1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b::808:808", true),
            ("64:ff9b:1::a9fe:a9fe", false),
            ("2002:a9fe:a9fe::1", false),
            ("2002:7f00:1::1", false),
            ("::a9fe:a9fe", false),
            ("64:ff9b::ac12:2", false),
        ] {
            assert_eq!(allows(&all, address), wanted, "{address}");
        }
    }

    #[test]
    fn what_is_reserved_is_reached_if_exactly_that_is_allowed() {
        // As on one machine, where Services and pods have addresses of the loopback.
        let local = reach(&["127.0.0.1"], &["0.0.0.0/0", "127.96.0.0/16"], &["127.96.7.0/24"]);
        for (address, wanted) in
            [("127.0.0.1", true), ("127.96.1.2", true), ("127.0.0.2", false), ("127.96.7.1", false)]
        {
            assert_eq!(allows(&local, address), wanted, "{address}");
        }
    }
}
