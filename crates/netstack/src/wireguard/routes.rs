//! Which peer an address is of: the longest network that it is in.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

/// Networks and whose they are, by their length: few lengths, each looked up by hash.
pub(super) struct Routes<T> {
    v4: BTreeMap<Reverse<u8>, HashMap<IpAddr, T>>,
    v6: BTreeMap<Reverse<u8>, HashMap<IpAddr, T>>,
    /// What was last asked for: bulk comes in rows.
    last: Cell<Option<(IpAddr, T)>>,
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self { v4: BTreeMap::new(), v6: BTreeMap::new(), last: Cell::new(None) }
    }
}

impl<T: Copy> Routes<T> {
    /// Gives a network to somebody; whoever had it has it no longer.
    pub(super) fn insert(&mut self, network: IpNet, owner: T) {
        self.last.set(None);
        let lengths = if network.addr().is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        lengths.entry(Reverse(network.prefix_len())).or_default().insert(network.network(), owner);
    }

    /// Whose an address is.
    pub(super) fn owner(&self, address: IpAddr) -> Option<T> {
        if let Some((last, owner)) = self.last.get()
            && last == address
        {
            return Some(owner);
        }
        let lengths = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let owner = lengths.iter().find_map(|(Reverse(length), networks)| {
            let network = IpNet::new(address, *length).ok()?.network();
            networks.get(&network).copied()
        })?;
        self.last.set(Some((address, owner)));
        Some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_network_decides() {
        let mut routes = Routes::default();
        for (network, owner) in
            [("0.0.0.0/0", 0), ("10.0.0.0/8", 1), ("10.1.2.3/32", 2), ("fd00::/64", 3), ("10.0.0.7/8", 4)]
        {
            routes.insert(network.parse().unwrap(), owner);
        }
        let owner = |address: &str| routes.owner(address.parse().unwrap());
        assert_eq!(owner("192.0.2.1"), Some(0));
        assert_eq!(owner("10.9.9.9"), Some(4), "the later has it");
        assert_eq!(owner("10.1.2.3"), Some(2));
        assert_eq!(owner("fd00::5"), Some(3));
        assert_eq!(owner("fe80::1"), None);
    }
}
