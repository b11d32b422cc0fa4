//! What the parts of an intercept are called, by those who must not see each other: the ends of links and their certificates,
//! what a carrier asks the cluster's end for, and the labels by which a Service finds its carrier.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the cluster's end is called on links.
pub const STOWAWAY: &str = "stowaway";
/// The name in its certificate.
pub const STOWAWAY_CERTIFICATE: &str = "stowaway.link.causeway.internal";
/// Where its links are taken, in its pods.
pub const LINK_PORT: u16 = 7844;
/// Where it takes carriers.
pub const CARRIER_PORT: u16 = 7845;
/// Where it takes WireGuard.
pub const WIREGUARD_PORT: u16 = 51_820;
/// Where its health and metrics are.
pub const STOWAWAY_HEALTH_PORT: u16 = 9080;

/// The address of the cluster's end inside of WireGuard, for peers with addresses of IPv4: what it opens to them comes from there.
pub const WIREGUARD_GATEWAY_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 0, 8));
/// The same for those with addresses of IPv6.
pub const WIREGUARD_GATEWAY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 8));

/// How a plan names a carrier's own certificate.
pub const CARRIER_KEY: &str = "carrier";
/// How a plan names the authority of links.
pub const AUTHORITY_KEY: &str = "stowaway";

/// What a workstation is called on links.
pub fn workstation(uid: &str) -> String {
    format!("workstation-{uid}")
}

/// What a carrier is called, by the uid of its plan's object.
pub fn carrier(uid: &str) -> String {
    format!("carrier-{uid}")
}

/// A port of a workstation, or of an address behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    /// The Workstation's uid.
    pub workstation: String,
    /// An address behind it; none is the machine itself.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whether datagrams are carried.
    pub datagrams: bool,
}

impl fmt::Display for Delivery {
    /// The server name that a carrier asks the cluster's end for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}.", if self.datagrams { 'u' } else { 'p' }, self.port)?;
        match self.address {
            None => {}
            Some(IpAddr::V4(address)) => write!(f, "a{}.", address.to_string().replace('.', "-"))?,
            // In full: a label must not end with a hyphen, as a short form may.
            Some(IpAddr::V6(address)) => {
                write!(f, "a{}.", address.segments().map(|segment| format!("{segment:x}")).join("-"))?;
            }
        }
        write!(f, "{}.workstation.causeway", self.workstation)
    }
}

/// What a Service selects while its carrier stands in front of it: the same labels, each with a value that is the carrier's
/// alone. So whoever applies the Service once more gets all of the original back, never a mixture that selects nothing.
pub fn taken(selector: &BTreeMap<String, String>, carrier: &str) -> BTreeMap<String, String> {
    selector.keys().map(|key| (key.clone(), format!("{carrier}.causeway"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_behind_a_workstation_is_one_label() {
        let at = |address: &str| Delivery {
            workstation: "7f6f".into(),
            address: Some(address.parse().unwrap()),
            port: 80,
            datagrams: false,
        };
        assert_eq!(at("192.168.1.7").to_string(), "p80.a192-168-1-7.7f6f.workstation.causeway");
        assert_eq!(at("fd00::").to_string(), "p80.afd00-0-0-0-0-0-0-0.7f6f.workstation.causeway");
    }
}
