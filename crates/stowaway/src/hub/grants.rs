//! What carriers are granted: each a few ports of a few workstations.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use crate::Uid;
use crate::server_name::Wanted;

/// A carrier may connect to a port of a workstation, or to one of an address behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The carrier's name in its certificate.
    pub carrier: String,
    /// Whose machine.
    pub workstation: Uid,
    /// An address behind the machine; none is the machine itself.
    pub address: Option<IpAddr>,
    /// The port there.
    pub port: u16,
}

/// All grants, by workstation.
#[derive(Debug, Default)]
pub(super) struct Grants(HashMap<Uid, Ports>);

type Ports = HashMap<(Option<IpAddr>, u16), HashSet<String>>;

impl Grants {
    pub(super) fn new(grants: Vec<Grant>) -> Self {
        let mut all: HashMap<Uid, Ports> = HashMap::new();
        for Grant { carrier, workstation, address, port } in grants {
            let address = address.map(|address| address.to_canonical());
            all.entry(workstation).or_default().entry((address, port)).or_default().insert(carrier);
        }
        Self(all)
    }

    /// Whether this carrier may have it. Whether a workstation is there may know whoever may have one of its ports.
    pub(super) fn allows(&self, carrier: &str, wanted: &Wanted) -> bool {
        let (address, port) = (wanted.address, wanted.port);
        let mut ports = self.0.get(&wanted.workstation).into_iter().flatten();
        ports.any(|(key, holders)| (port == 0 || *key == (address, port)) && holders.contains(carrier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carrier_has_what_it_was_granted_and_nothing_else() {
        let grant = |carrier: &str, address: Option<&str>, port| Grant {
            carrier: carrier.to_owned(),
            workstation: "w".to_owned(),
            address: address.map(|address| address.parse().unwrap()),
            port,
        };
        let grants = Grants::new(vec![
            grant("one", None, 80),
            grant("two", Some("10.0.0.7"), 80),
            grant("two", None, 81),
        ]);
        let asks = |carrier: &str, name: &str| {
            let wanted = Wanted::parse(&format!("{name}.workstation.causeway")).unwrap();
            grants.allows(carrier, &wanted)
        };
        for (carrier, name, may) in [
            ("one", "p80.w", true),
            ("one", "u80.w", true), // datagrams have the same ports
            ("two", "p80.w", false),
            ("two", "p80.a10-0-0-7.w", true),
            ("one", "p80.a10-0-0-7.w", false),
            ("one", "p82.w", false),
            ("one", "p80.v", false),
            ("one", "p0.w", true),
            ("three", "p0.w", false),
        ] {
            assert_eq!(asks(carrier, name), may, "{carrier} {name}");
        }
    }
}
