//! An interface as the kernel has it: its addresses, and whether it can serve clients.

use std::net::{IpAddr, Ipv4Addr};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;

/// All that the kernel says of an interface.
fn look(interface: &str) -> Vec<InterfaceAddress> {
    let all = getifaddrs().into_iter().flatten();
    all.filter(|address| address.interface_name == interface).collect()
}

fn ip(address: &InterfaceAddress) -> Option<IpAddr> {
    let address = address.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|own| own.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|own| own.ip().into()))
}

/// The addresses of an interface.
pub(super) fn addresses(interface: &str) -> Vec<IpAddr> {
    look(interface).iter().filter_map(ip).collect()
}

/// What keeps clients of an interface from being served, in words for people.
pub(super) fn trouble(interface: &str, server: Ipv4Addr) -> Option<String> {
    let here = look(interface);
    let Some(first) = here.first() else {
        return Some(format!("there is no interface {interface}; look with `ip link`"));
    };
    if !first.flags.contains(InterfaceFlags::IFF_UP) {
        return Some(format!("{interface} is down; set it up with `ip link set {interface} up`"));
    }
    let is_there = here.iter().filter_map(ip).any(|own| own == server);
    (!is_there).then(|| {
        format!(
            "{interface} does not have the server's address {server}, where clients renew: add it, or name another in the plan"
        )
    })
}
