//! Packets to and from an address that vanish on the way, for as long as the value lives.

use std::net::IpAddr;
use std::process::Command;

use crate::bed::unique;

pub struct Firewall {
    table: String,
}

impl Firewall {
    /// Drops what this machine and `address` send each other.
    pub fn around(address: IpAddr) -> Self {
        Self::drop_packets(address, "", "")
    }

    /// Drops what this machine sends to these TCP ports of `address`, and what comes from there.
    pub fn before_ports(address: IpAddr, ports: [u16; 2]) -> Self {
        let of = |side: &str| format!("tcp {side} {{ {}, {} }}", ports[0], ports[1]);
        Self::drop_packets(address, &of("dport"), &of("sport"))
    }

    fn drop_packets(address: IpAddr, to: &str, from: &str) -> Self {
        let table = format!("causeway_test_{}_{}", std::process::id(), unique());
        let family = if address.is_ipv4() { "ip" } else { "ip6" };
        let rules = format!(
            "table inet {table} {{
                chain out {{ type filter hook output priority -10; {family} daddr {address} {to} drop; }}
                chain in {{ type filter hook input priority -10; {family} saddr {address} {from} drop; }}
            }}"
        );
        let made = Command::new("nft").arg(rules).output().expect("nft is installed (Debian: nftables)");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { table }
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        let _ = Command::new("nft").args(["delete", "table", "inet", &self.table]).output();
    }
}
