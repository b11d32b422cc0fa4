//! ICMP of both versions: echoes are answered, datagrams that nobody takes are refused, and what routers say of our own
//! packets is understood.

use std::net::{IpAddr, SocketAddr};

use smoltcp::wire::{IpAddress, IpProtocol, checksum};

use crate::ip::{self, Packet};

/// How much of a refused packet is quoted.
const QUOTED: usize = 512;

/// What a message asks for or tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A packet to send: the answer to an echo.
    Answer(Vec<u8>),
    /// A packet of ours did not get through.
    Trouble(Trouble),
}

/// What happened to a packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub protocol: IpProtocol,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// The four bytes after the ports: of TCP, the sequence number.
    pub number: u32,
    pub kind: Kind,
}

/// Why it did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    TooLarge { mtu: usize },
    Unreachable,
}

/// Reads a message; none if nothing follows from it.
pub(crate) fn read(packet: &Packet<'_>) -> Option<Message> {
    let bytes = packet.payload;
    if packet.fragment.is_some()
        || bytes.len() < 8
        || sum(packet.from, packet.to, packet.protocol, bytes) != 0
    {
        return None;
    }
    let rest = bytes.get(8..)?;
    match (packet.protocol, bytes[0], bytes[1]) {
        (IpProtocol::Icmp, 8, 0) | (IpProtocol::Icmpv6, 128, 0) => {
            ip::is_single(packet.to).then(|| Message::Answer(echo(packet)))
        }
        (IpProtocol::Icmp, 3, 4) => {
            trouble(rest, Kind::TooLarge { mtu: usize::from(u16::from_be_bytes([bytes[6], bytes[7]])) })
        }
        (IpProtocol::Icmpv6, 2, _) => {
            let mtu = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
            trouble(rest, Kind::TooLarge { mtu })
        }
        (IpProtocol::Icmp, 3, _) | (IpProtocol::Icmpv6, 1, _) => trouble(rest, Kind::Unreachable),
        _ => None,
    }
}

fn echo(packet: &Packet<'_>) -> Vec<u8> {
    let kind = if packet.to.is_ipv4() { 0 } else { 129 };
    write(packet.to, packet.from, [kind, 0], &packet.payload[4..])
}

/// Tells who sent a datagram that nobody takes it.
pub(crate) fn unreachable(packet: &Packet<'_>) -> Vec<u8> {
    let mut quote = vec![0; 4 + ip::header_len(packet.to)];
    quote.extend_from_slice(&packet.payload[..packet.payload.len().min(QUOTED)]);
    // The header is written anew, since the old one is not kept; its fields are those that matter.
    ip::write_header(&mut quote[4..], packet.from, packet.to, packet.protocol);
    let kind = if packet.to.is_ipv4() { [3, 3] } else { [1, 4] };
    write(packet.to, packet.from, kind, &quote)
}

/// A whole packet: type and code, the checksum, and the rest.
fn write(from: IpAddr, to: IpAddr, kind: [u8; 2], rest: &[u8]) -> Vec<u8> {
    let header = ip::header_len(to);
    let mut packet = vec![0; header + 4 + rest.len()];
    packet[header..header + 2].copy_from_slice(&kind);
    packet[header + 4..].copy_from_slice(rest);
    let protocol = if to.is_ipv4() { IpProtocol::Icmp } else { IpProtocol::Icmpv6 };
    let sum = sum(from, to, protocol, &packet[header..]).to_be_bytes();
    packet[header + 2..header + 4].copy_from_slice(&sum);
    ip::write_header(&mut packet, from, to, protocol);
    packet
}

/// The checksum of a message; 0 over one that has the right one.
fn sum(from: IpAddr, to: IpAddr, protocol: IpProtocol, message: &[u8]) -> u16 {
    let data = checksum::data(message);
    if protocol == IpProtocol::Icmp {
        return !data;
    }
    if from.is_ipv4() || to.is_ipv4() {
        return 1;
    }
    let (from, to) = (IpAddress::from(from), IpAddress::from(to));
    !checksum::combine(&[checksum::pseudo_header(&from, &to, protocol, message.len() as u32), data])
}

/// Reads the beginning of the packet that a message quotes.
fn trouble(quote: &[u8], kind: Kind) -> Option<Message> {
    let (from, to) = ip::addresses(quote)?;
    let (protocol, header) = match quote.first()? >> 4 {
        4 => (*quote.get(9)?, usize::from(quote.first()? & 0xf) * 4),
        _ => (*quote.get(6)?, 40),
    };
    let ports = quote.get(header..header + 4)?;
    let number = quote.get(header + 4..header + 8)?;
    Some(Message::Trouble(Trouble {
        protocol: protocol.into(),
        from: SocketAddr::new(from, u16::from_be_bytes([ports[0], ports[1]])),
        to: SocketAddr::new(to, u16::from_be_bytes([ports[2], ports[3]])),
        number: u32::from_be_bytes(number.try_into().ok()?),
        kind,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(v6: bool) -> (IpAddr, IpAddr) {
        let (one, two) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        (one.parse().unwrap(), two.parse().unwrap())
    }

    #[test]
    fn an_echo_comes_back_as_it_went() {
        for v6 in [false, true] {
            let (one, two) = pair(v6);
            let request = write(one, two, [if v6 { 128 } else { 8 }, 0], b"\x12\x34\0\x01hello");
            let Some(Message::Answer(answer)) = read(&ip::read(&request).unwrap()) else { panic!() };
            let packet = ip::read(&answer).unwrap();
            assert_eq!((packet.from, packet.to), (two, one));
            assert_eq!(packet.payload[0], if v6 { 129 } else { 0 });
            assert_eq!(&packet.payload[4..], b"\x12\x34\0\x01hello");
            assert_eq!(sum(packet.from, packet.to, packet.protocol, packet.payload), 0);
            let mut bent = request.clone();
            *bent.last_mut().unwrap() ^= 1;
            assert_eq!(read(&ip::read(&bent).unwrap()), None);
        }
    }

    #[test]
    fn a_refusal_is_understood() {
        for v6 in [false, true] {
            let (one, two) = pair(v6);
            let payload = [0, 53, 1, 0, 0, 9, 0, 0, 7];
            let packet =
                Packet { from: one, to: two, protocol: IpProtocol::Udp, payload: &payload, fragment: None };
            let refusal = unreachable(&packet);
            let Some(Message::Trouble(trouble)) = read(&ip::read(&refusal).unwrap()) else { panic!() };
            assert_eq!((trouble.from, trouble.to), (SocketAddr::new(one, 53), SocketAddr::new(two, 256)));
            assert_eq!((trouble.protocol, trouble.kind), (IpProtocol::Udp, Kind::Unreachable));
        }
    }

    #[test]
    fn too_large_names_the_size() {
        let (one, two) = pair(false);
        let mut quote = vec![0; 20 + 8];
        ip::write_header(&mut quote, two, one, IpProtocol::Tcp);
        let message = write(one, two, [3, 4], &[&[0, 0, 0x05, 0x00][..], &quote].concat());
        let Some(Message::Trouble(trouble)) = read(&ip::read(&message).unwrap()) else { panic!() };
        assert_eq!(trouble.kind, Kind::TooLarge { mtu: 1280 });
    }
}
