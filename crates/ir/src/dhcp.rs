//! The plan of a DHCP server: the network that it serves, the addresses that it may lease, and what it tells clients.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Name, Period, Problem};

/// Everything that a DHCP server does on one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DhcpPlan {
    /// The interface that clients are on.
    pub interface: Name,
    /// The server's address, by which clients know it.
    pub server: Ipv4Addr,
    /// The network; its mask is told to clients.
    pub network: Ipv4Net,
    /// The addresses to lease.
    pub pool: AddressPool,
    /// How long a lease holds without renewal; default 1h.
    #[serde(default = "lease_time")]
    pub lease_time: Period,
    /// The way out of the network; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
    /// Resolvers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<Ipv4Addr>,
    /// Addresses that are always the same client's; they may lie outside of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    /// Further options, as they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<DhcpOption>,
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddressPool {
    /// The first.
    pub first: Ipv4Addr,
    /// The last.
    pub last: Ipv4Addr,
    /// Never leased, though in the range; the server, the gateway and the resolvers never are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<IpNet>,
}

/// An address that is always the same client's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reservation {
    /// The client.
    pub hardware: HardwareAddress,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its name, told to it and to DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Name>,
}

/// An Ethernet address, written `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HardwareAddress(pub [u8; 6]);

impl HardwareAddress {
    /// Reads six bytes in hexadecimal with colons or dashes between them.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 6];
        let parts: Vec<&str> = text.split([':', '-']).collect();
        let right = parts.len() == 6
            && parts.iter().zip(&mut bytes).all(|(part, byte)| {
                let hex = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
                let parsed = hex.then(|| u8::from_str_radix(part, 16).ok()).flatten();
                parsed.map(|value| *byte = value).is_some()
            });
        right
            .then_some(Self(bytes))
            .ok_or_else(|| format!("`{text}` is not a hardware address: write 02:00:00:00:00:01"))
    }
}

impl Serialize for HardwareAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<_> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&bytes.join(":"))
    }
}

impl<'de> Deserialize<'de> for HardwareAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// An option by its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DhcpOption {
    /// 1 to 254.
    pub code: u8,
    /// Its bytes.
    pub value: Vec<u8>,
}

impl DhcpPlan {
    /// Everything that makes this plan impossible to run; empty when it is fine.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut add = |path: String, message: String| found.push(Problem { path, message });
        let inside = |address: &Ipv4Addr| self.network.contains(address);
        if self.pool.first > self.pool.last {
            add(
                "pool.last".into(),
                format!("{} comes before {}: swap them", self.pool.last, self.pool.first),
            );
        }
        let addresses =
            [("server", self.server), ("pool.first", self.pool.first), ("pool.last", self.pool.last)];
        let gateway = self.gateway.map(|gateway| ("gateway", gateway));
        for (path, address) in addresses.into_iter().chain(gateway) {
            if !inside(&address) {
                add(path.into(), format!("{address} is not in the network {}", self.network));
            }
        }
        for (i, reservation) in self.reservations.iter().enumerate() {
            let before = &self.reservations[..i];
            if !inside(&reservation.address) {
                let message = format!("{} is not in the network {}", reservation.address, self.network);
                add(format!("reservations[{i}].address"), message);
            }
            if let Some(first) = before.iter().position(|other| other.address == reservation.address) {
                let message = format!("{} is already that of reservations[{first}]", reservation.address);
                add(format!("reservations[{i}].address"), message);
            }
            if let Some(first) = before.iter().position(|other| other.hardware == reservation.hardware) {
                add(
                    format!("reservations[{i}].hardware"),
                    format!("is already that of reservations[{first}]"),
                );
            }
        }
        for (i, option) in self.options.iter().enumerate() {
            if option.code == 0 || option.code == 255 {
                add(format!("options[{i}].code"), "0 and 255 are marks, not options: write 1 to 254".into());
            }
        }
        found
    }
}

const fn lease_time() -> Period {
    const { Period::from_secs(3600) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "interface: net1\nserver: 10.0.0.2\nnetwork: 10.0.0.0/24\n\
         pool: {first: 10.0.0.100, last: 10.0.0.200}\n\
         reservations: [{hardware: '02:00:00:00:00:01', address: 10.0.0.9}]";

    fn problems(from: &str, to: &str) -> Vec<String> {
        let plan: DhcpPlan = serde_saphyr::from_str(&GOOD.replacen(from, to, 1)).unwrap();
        plan.validate().into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn names_what_does_not_fit_the_network() {
        assert_eq!(problems("", ""), Vec::<String>::new());
        assert_eq!(problems("first: 10.0.0.100", "first: 10.0.0.201"), ["pool.last"]);
        assert_eq!(problems("server: 10.0.0.2", "server: 10.0.1.2"), ["server"]);
        assert_eq!(problems("10.0.0.9", "10.0.9.9"), ["reservations[0].address"]);
    }

    #[test]
    fn reads_and_writes_hardware_addresses() {
        let address = HardwareAddress::parse("02-00-AB-00-00-01").unwrap();
        assert_eq!(serde_json::to_string(&address).unwrap(), "\"02:00:ab:00:00:01\"");
        for text in ["", "02:00", "02:00:00:00:00:0g", "02:00:00:00:00:001", "+2:00:00:00:00:01"] {
            assert!(HardwareAddress::parse(text).is_err(), "{text}");
        }
    }
}
