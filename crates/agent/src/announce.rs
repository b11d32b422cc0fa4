//! Tells the neighbours on a network where an address is now: those that knew it from a pod before have that pod's
//! hardware address, and would go on sending there for most of a minute.
//!
//! Without any privilege: whoever sends to a neighbour has to ask for its hardware address first, and every question says
//! who asks. IPv4 asks everybody, so one question is enough for all. IPv6 asks only a few: the router and those who have
//! the lowest addresses of the network hear it, others find out by themselves. With the right to raw sockets (`NET_RAW`)
//! everybody hears it in IPv6 too.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6, UdpSocket};

use ipnet::IpNet;
use rustix::net::{self, AddressFamily, SendFlags, SocketType, sockopt};

use crate::links::Links;

/// The port of the service that throws everything away.
const DISCARD: u16 = 9;
/// Neighbours that are asked for at each end of a network in IPv4: of some at least nobody knows yet where they are.
const ASKED_V4: usize = 3;
/// Neighbours that are asked for at the beginning of a network in IPv6, where each hears only of itself.
const ASKED_V6: usize = 32;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Tells the neighbours of an address of this machine; says nothing where there are none.
///
/// # Errors
/// When not one question could be sent.
pub(crate) fn announce(links: &Links, address: IpAddr) -> io::Result<()> {
    let Some((interface, network)) = links.network_of(address).filter(|_| !address.is_loopback()) else {
        return Ok(());
    };
    let told = match address {
        IpAddr::V6(address) => advertise(address, &interface).is_ok(),
        IpAddr::V4(_) => false,
    };
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_nonblocking(true)?;
    let mut refused = None;
    let mut sent = 0;
    for neighbour in neighbours(&network, address) {
        match socket.send_to(&[], (neighbour, DISCARD)) {
            Ok(_) => sent += 1,
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if sent == 0 && !told => Err(error),
        _ => Ok(()),
    }
}

/// Whom to ask for.
fn neighbours(network: &IpNet, own: IpAddr) -> Vec<IpAddr> {
    let hosts = network.hosts().filter(|host| *host != own);
    match network {
        IpNet::V4(net) => {
            let (first, last) = (u32::from(net.network()), u32::from(net.broadcast()));
            let backwards = (first..=last).rev().map(|number| IpAddr::V4(Ipv4Addr::from(number)));
            // Nobody is asked for the address of all.
            let ends = backwards.skip(1).filter(|host| *host != own && *host != IpAddr::V4(net.network()));
            let mut asked: Vec<_> = hosts.take(ASKED_V4).chain(ends.take(ASKED_V4)).collect();
            asked.sort_unstable();
            asked.dedup();
            asked
        }
        // The lowest is every router's.
        IpNet::V6(net) => hosts.filter(|host| *host != IpAddr::V6(net.network())).take(ASKED_V6).collect(),
    }
}

/// An unsolicited neighbour advertisement to all nodes (RFC 4861, 7.2.6).
fn advertise(address: Ipv6Addr, interface: &str) -> io::Result<()> {
    let hardware = Links::hardware_address(interface).ok_or(io::ErrorKind::NotFound)?;
    let socket = net::socket(AddressFamily::INET6, SocketType::RAW, Some(net::ipproto::ICMPV6))?;
    let index = net::netdevice::name_to_index(&socket, interface)?;
    sockopt::set_ipv6_multicast_hops(&socket, 255)?;
    net::bind(&socket, &SocketAddrV6::new(address, 0, 0, index))?;
    let to = SocketAddrV6::new(ALL_NODES, 0, 0, index);
    net::sendto(&socket, &advertisement(address, hardware), SendFlags::DONTWAIT, &to)?;
    Ok(())
}

/// The message; the kernel fills in its checksum.
fn advertisement(address: Ipv6Addr, hardware: [u8; 6]) -> [u8; 32] {
    let mut message = [0; 32];
    // Neighbour advertisement, and what was known before is overridden.
    message[0] = 136;
    message[4] = 0x20;
    message[8..24].copy_from_slice(&address.octets());
    // The target's hardware address, eight bytes long in all.
    message[24] = 2;
    message[25] = 1;
    message[26..].copy_from_slice(&hardware);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_for_others_at_the_ends_of_a_network() {
        for (network, own, expected) in [
            (
                "192.168.100.0/24",
                "192.168.100.2",
                &[
                    "192.168.100.1",
                    "192.168.100.3",
                    "192.168.100.4",
                    "192.168.100.252",
                    "192.168.100.253",
                    "192.168.100.254",
                ][..],
            ),
            ("10.0.0.0/30", "10.0.0.1", &["10.0.0.2"]),
            ("10.0.0.0/31", "10.0.0.1", &["10.0.0.0"]),
            ("10.0.0.0/8", "10.255.255.254", &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.255.255.251"]),
        ] {
            let network: IpNet = network.parse().unwrap();
            let found = neighbours(&network, own.parse().unwrap());
            let expected: Vec<IpAddr> = expected.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(found[..expected.len()], expected, "{network}");
            assert!(found.len() <= 2 * ASKED_V4 && !found.contains(&own.parse().unwrap()), "{found:?}");
        }
        let found = neighbours(&"fd00::/64".parse().unwrap(), "fd00::2".parse().unwrap());
        assert_eq!(found[..2], ["fd00::1".parse::<IpAddr>().unwrap(), "fd00::3".parse().unwrap()]);
        assert_eq!(found.len(), ASKED_V6);
    }

    #[test]
    fn an_address_without_neighbours_is_not_announced() {
        announce(&Links::default(), Ipv4Addr::new(127, 7, 7, 7).into()).unwrap();
        announce(&Links::default(), Ipv6Addr::LOCALHOST.into()).unwrap();
    }

    #[test]
    fn an_advertisement_overrides_what_was_known() {
        let message = advertisement("fd00::4".parse().unwrap(), [2, 0, 0, 0, 0, 9]);
        assert_eq!((message[0], message[4], &message[24..]), (136, 0x20, &[2, 1, 2, 0, 0, 0, 0, 9][..]));
        assert_eq!(message[8..24], "fd00::4".parse::<Ipv6Addr>().unwrap().octets());
    }
}
