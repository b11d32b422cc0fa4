//! What the kernel says of this pod's networks: the network that an address is on, what is forwarded between
//! interfaces, and addresses that another machine has already. Read from `/proc`, which every pod may.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use nix::net::if_::InterfaceFlags;

/// The flag of an IPv6 address that duplicate address detection found with somebody else.
const DAD_FAILED: u32 = 0x08;

/// Where the kernel says it.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    proc: PathBuf,
}

impl Default for Links {
    fn default() -> Self {
        Self { proc: "/proc".into() }
    }
}

impl Links {
    /// The network around an address of this machine, and its interface; none for an address without neighbours.
    pub(crate) fn network_of(&self, address: IpAddr) -> Option<(String, IpNet)> {
        match address {
            IpAddr::V4(address) => {
                let (name, net) = ipv4_network(&self.read("net/route"), address)?;
                Some((name, net.into()))
            }
            IpAddr::V6(address) => {
                let lines = self.read("net/if_inet6");
                let found = ipv6_addresses(&lines).find(|own| own.address == address)?;
                let net = Ipv6Net::new(address, found.prefix).ok()?.trunc();
                (found.prefix < 128).then(|| (found.interface, net.into()))
            }
        }
    }

    /// The interface that has an address of this machine.
    pub(crate) fn interface_of(&self, address: IpAddr) -> Option<String> {
        match address {
            IpAddr::V4(address) => {
                let routes = self.read("net/route");
                // Some networks give a pod nothing but its address and a way out.
                ipv4_network(&routes, address).map(|(name, _)| name).or_else(|| way_out(&routes))
            }
            IpAddr::V6(address) => {
                let lines = self.read("net/if_inet6");
                let own = ipv6_addresses(&lines).find(|own| own.address == address);
                own.map(|own| own.interface)
            }
        }
    }

    /// Whether the kernel took the address out of use because another machine on the network has it.
    pub(crate) fn is_duplicate(&self, address: IpAddr) -> bool {
        let IpAddr::V6(address) = address else { return false };
        ipv6_addresses(&self.read("net/if_inet6"))
            .any(|own| own.address == address && own.flags & DAD_FAILED != 0)
    }

    /// What this machine forwards: `IPv4 from eth0`, say. IPv4 is forwarded by the interface that it comes in on, IPv6 by
    /// one switch for all.
    pub(crate) fn forwards(&self) -> Vec<String> {
        let conf = self.proc.join("sys/net/ipv4/conf");
        let mut interfaces: Vec<String> = fs::read_dir(&conf)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| !matches!(name.as_str(), "all" | "default" | "lo"))
            .filter(|name| is_on(&conf.join(name).join("forwarding")))
            .collect();
        interfaces.sort();
        let ipv4 = (!interfaces.is_empty()).then(|| format!("IPv4 from {}", interfaces.join(", ")));
        let ipv6 = is_on(&self.proc.join("sys/net/ipv6/conf/all/forwarding")).then(|| "IPv6".to_owned());
        ipv4.into_iter().chain(ipv6).collect()
    }

    /// Whether an interface is switched on and its cable leads somewhere; one that there is not is not judged.
    pub(crate) fn has_carrier(interface: &str) -> bool {
        let Ok(mut all) = nix::ifaddrs::getifaddrs() else { return true };
        let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        all.find(|one| one.interface_name == interface).is_none_or(|one| one.flags.contains(running))
    }

    /// The hardware address of an interface.
    pub(crate) fn hardware_address(interface: &str) -> Option<[u8; 6]> {
        // Not from `/sys`, which shows the interfaces of the namespace that it was mounted in.
        let mut addresses = nix::ifaddrs::getifaddrs().ok()?.filter(|one| one.interface_name == interface);
        addresses.find_map(|one| one.address?.as_link_addr()?.addr())
    }

    fn read(&self, name: &str) -> String {
        // A kernel without a family has no such file, and no such networks.
        fs::read_to_string(self.proc.join(name)).unwrap_or_default()
    }
}

fn is_on(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.trim() != "0")
}

/// The narrowest network without a router that the address is in, of the lines of `/proc/net/route`.
fn ipv4_network(routes: &str, address: Ipv4Addr) -> Option<(String, Ipv4Net)> {
    let networks = routes.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let interface = fields.next()?;
        let mut word = |skip: usize| u32::from_str_radix(fields.nth(skip)?, 16).ok();
        // In the order of the machine's own memory.
        let (destination, gateway, mask) = (word(0)?, word(0)?, word(4)?);
        let prefix = u32::from_be(mask).leading_ones() as u8;
        let net = Ipv4Net::new(Ipv4Addr::from(u32::from_be(destination)), prefix).ok()?;
        (gateway == 0 && prefix > 0 && net.contains(&address)).then(|| (interface.to_owned(), net))
    });
    networks.max_by_key(|(_, net)| net.prefix_len())
}

/// The interface of the default route.
fn way_out(routes: &str) -> Option<String> {
    let mut lines = routes.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line =
        lines.find(|fields| fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000"))?;
    line.first().map(|name| (*name).to_owned())
}

/// One line of `/proc/net/if_inet6`.
struct Ipv6Address {
    address: Ipv6Addr,
    prefix: u8,
    flags: u32,
    interface: String,
}

fn ipv6_addresses(lines: &str) -> impl Iterator<Item = Ipv6Address> {
    lines.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        Some(Ipv6Address {
            address: u128::from_str_radix(fields.next()?, 16).ok()?.into(),
            prefix: u8::from_str_radix(fields.nth(1)?, 16).ok()?,
            flags: u32::from_str_radix(fields.nth(1)?, 16).ok()?,
            interface: fields.next()?.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	01015A0A	0003	0	0	0	00000000	0	0	0
eth0	00015A0A	00000000	0001	0	0	0	00FFFFFF	0	0	0
net1	0064A8C0	00000000	0001	0	0	0	80FFFFFF	0	0	0
net1	0000A8C0	0164A8C0	0003	0	0	0	0000FFFF	0	0	0
";
    const ADDRESSES: &str = "\
fd000100000000000000000000000004 05 40 00 80 net1
fd000100000000000000000000000005 05 40 00 88 net1
00000000000000000000000000000001 01 80 10 80 lo
";

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Links) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let links = Links { proc: dir.path().to_owned() };
        (dir, links)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn finds_the_network_around_an_address() {
        let (_dir, links) = machine(&[("net/route", ROUTES), ("net/if_inet6", ADDRESSES)]);
        for (address, expected) in [
            ("192.168.100.4", Some(("net1", "192.168.100.0/25"))),
            ("10.90.1.7", Some(("eth0", "10.90.1.0/24"))),
            // Behind a router, though the router is on the same interface.
            ("192.168.7.1", None),
            ("fd00:100::4", Some(("net1", "fd00:100::/64"))),
            ("fd00:100::6", None),
            ("::1", None),
        ] {
            let expected = expected.map(|(name, net)| (name.to_owned(), net.parse().unwrap()));
            assert_eq!(links.network_of(address.parse().unwrap()), expected, "{address}");
        }
        for (address, interface) in [
            ("192.168.100.4", Some("net1")),
            ("10.3.3.3", Some("eth0")),
            ("::1", Some("lo")),
            ("fd00::", None),
        ] {
            assert_eq!(links.interface_of(address.parse().unwrap()).as_deref(), interface, "{address}");
        }
    }

    #[test]
    fn knows_an_address_that_somebody_else_has() {
        let (_dir, links) = machine(&[("net/if_inet6", ADDRESSES)]);
        let is_duplicate = |text: &str| links.is_duplicate(text.parse().unwrap());
        assert!(is_duplicate("fd00:100::5"));
        assert!(!is_duplicate("fd00:100::4") && !is_duplicate("fd00:100::6") && !is_duplicate("192.0.2.1"));
    }

    #[test]
    fn says_what_is_forwarded() {
        let ipv4 = |name: &str| format!("sys/net/ipv4/conf/{name}/forwarding");
        let (all, lo, eth0, net1) = (ipv4("all"), ipv4("lo"), ipv4("eth0"), ipv4("net1"));
        let ipv6 = "sys/net/ipv6/conf/all/forwarding";
        for (files, expected) in [
            (&[(&*all, "1\n"), (&lo, "1\n"), (&eth0, "0\n"), (&net1, "0\n"), (ipv6, "0\n")][..], &[][..]),
            (&[(&all, "0\n"), (&net1, "1\n"), (&eth0, "1\n")], &["IPv4 from eth0, net1"]),
            (&[(&eth0, "1\n"), (&net1, "0\n"), (ipv6, "1\n")], &["IPv4 from eth0", "IPv6"]),
            (&[], &[]),
        ] {
            let (_dir, links) = machine(files);
            assert_eq!(links.forwards(), expected, "{files:?}");
        }
    }
}
