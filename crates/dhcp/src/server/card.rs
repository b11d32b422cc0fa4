//! Frames to clients that can't be reached through the kernel: it does not know their card yet. That needs the right to raw
//! sockets; without it, such clients are answered by broadcast.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrIn6, SockaddrLike, SockaddrStorage, bind,
    send, socket,
};

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// An interface's card, with a socket that sends frames.
pub(crate) struct Card {
    socket: OwnedFd,
    hardware: [u8; 6],
}

impl Card {
    /// Opens a socket for an interface; none without the right to.
    pub(crate) fn open(interface: &str) -> nix::Result<Self> {
        let link = link(interface).ok_or(nix::Error::ENODEV)?;
        let hardware = link.addr().ok_or(nix::Error::EADDRNOTAVAIL)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Without a protocol it receives nothing.
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        bind(socket.as_raw_fd(), &link)?;
        Ok(Self { socket, hardware })
    }

    pub(crate) fn hardware(&self) -> [u8; 6] {
        self.hardware
    }

    /// Sends a datagram of DHCPv4 to a card.
    pub(crate) fn send(&self, from: Ipv4Addr, card: [u8; 6], to: Ipv4Addr, data: &[u8]) -> nix::Result<()> {
        self.frame(card, IPV4, &udp_over_ipv4(from, to, data))
    }

    /// Sends a message of ICMPv6 to all machines of the network, as a router of it.
    pub(crate) fn multicast(&self, from: Ipv6Addr, message: &[u8]) -> nix::Result<()> {
        let everybody = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        self.frame([0x33, 0x33, 0, 0, 0, 1], IPV6, &icmp_over_ipv6(from, everybody, message))
    }

    fn frame(&self, to: [u8; 6], kind: [u8; 2], packet: &[u8]) -> nix::Result<()> {
        let frame = [&to[..], &self.hardware, &kind, packet].concat();
        send(self.socket.as_raw_fd(), &frame, MsgFlags::empty()).map(drop)
    }
}

/// The link of an interface.
fn link(interface: &str) -> Option<LinkAddr> {
    let all = getifaddrs().ok()?;
    let here = all.filter(|address| address.interface_name == interface);
    here.filter_map(|address| address.address).find_map(|address| address.as_link_addr().copied())
}

/// The link-local address of an interface.
pub(crate) fn link_local(interface: &str) -> Option<Ipv6Addr> {
    let all = getifaddrs().ok()?;
    let here =
        all.filter(|address| address.interface_name == interface).filter_map(|address| address.address);
    let v6 = here.filter(|address: &SockaddrStorage| address.family() == Some(AddressFamily::Inet6));
    let mut ips = v6.filter_map(|address| address.as_sockaddr_in6().map(SockaddrIn6::ip));
    ips.find(Ipv6Addr::is_unicast_link_local)
}

fn udp_over_ipv4(from: Ipv4Addr, to: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let udp = (data.len() + 8) as u16;
    let mut packet = Vec::with_capacity(data.len() + 28);
    packet.extend_from_slice(&[0x45, 0x10]);
    packet.extend_from_slice(&(udp + 20).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 0, 64, UDP, 0, 0]);
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&[0, 67, 0, 68]);
    packet.extend_from_slice(&udp.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(data);
    let length = udp.to_be_bytes();
    let sum = checksum(&[&from.octets(), &to.octets(), &[0, UDP], &length, &packet[20..]]);
    // No sum at all is written as zero.
    let sum = if sum == 0 { 0xffff } else { sum };
    packet[26..28].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn icmp_over_ipv6(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let length = message.len() as u16;
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&length.to_be_bytes());
    // Neighbours' messages come with all hops left, so that nobody beyond a router can send them.
    packet.extend_from_slice(&[ICMPV6, 255]);
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    let whole = u32::from(length).to_be_bytes();
    let sum = checksum(&[&from.octets(), &to.octets(), &whole, &[0, 0, 0, ICMPV6], message]);
    packet.extend_from_slice(message);
    packet[42..44].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The sum of the internet's protocols; all parts but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let pairs = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 =
        pairs.map(|pair| (u32::from(pair[0]) << 8) | pair.get(1).map_or(0, |low| u32::from(*low))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_add_up() {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 9));
        for data in [&b"odd"[..], b"even"] {
            let packet = udp_over_ipv4(from, to, data);
            assert_eq!(checksum(&[&packet[..20]]), 0);
            let udp = packet[24..26].to_vec();
            assert_eq!(checksum(&[&from.octets(), &to.octets(), &[0, UDP], &udp, &packet[20..]]), 0);
        }
    }
}
