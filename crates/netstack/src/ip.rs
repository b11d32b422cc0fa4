//! IP packets, both versions: what is in one, and how one is written. Formats are smoltcp's.

use std::net::IpAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IPV4_HEADER_LEN, IPV6_HEADER_LEN, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
};

/// How many routers a packet may pass.
const HOPS: u8 = 64;
/// Headers between IPv6 and what it carries, in one packet.
const EXTENSIONS: usize = 8;

/// What an IP packet says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub from: IpAddr,
    pub to: IpAddr,
    pub protocol: IpProtocol,
    pub payload: &'a [u8],
    pub fragment: Option<Fragment>,
}

/// Which part of a larger packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub id: u32,
    pub offset: usize,
    pub is_last: bool,
}

/// Reads a packet; none if it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Packet<'_>> {
    match bytes.first()? >> 4 {
        4 => read_v4(bytes),
        6 => read_v6(bytes),
        _ => None,
    }
}

fn read_v4(bytes: &[u8]) -> Option<Packet<'_>> {
    let packet = Ipv4Packet::new_checked(bytes).ok()?;
    if !packet.verify_checksum() {
        return None;
    }
    let fragment = Fragment {
        id: u32::from(packet.ident()),
        offset: usize::from(packet.frag_offset()),
        is_last: !packet.more_frags(),
    };
    Some(Packet {
        from: packet.src_addr().into(),
        to: packet.dst_addr().into(),
        protocol: packet.next_header(),
        payload: packet.payload(),
        fragment: (fragment.offset > 0 || !fragment.is_last).then_some(fragment),
    })
}

fn read_v6(bytes: &[u8]) -> Option<Packet<'_>> {
    let packet = Ipv6Packet::new_checked(bytes).ok()?;
    let (mut protocol, mut payload) = (packet.next_header(), packet.payload());
    let mut fragment = None;
    for _ in 0..EXTENSIONS {
        match protocol {
            IpProtocol::HopByHop | IpProtocol::Ipv6Route | IpProtocol::Ipv6Opts => {
                let [next, length, ..] = *payload else { return None };
                protocol = next.into();
                payload = payload.get(8 + usize::from(length) * 8..)?;
            }
            IpProtocol::Ipv6Frag => {
                let (header, rest) = payload.split_first_chunk::<8>()?;
                let [next, _, high, low, a, b, c, d] = *header;
                let place = u16::from_be_bytes([high, low]);
                let part = Fragment {
                    id: u32::from_be_bytes([a, b, c, d]),
                    offset: usize::from(place & !7),
                    is_last: place & 1 == 0,
                };
                (protocol, payload) = (next.into(), rest);
                if part.offset > 0 || !part.is_last {
                    // What follows is found when all parts are there.
                    fragment = Some(part);
                    break;
                }
            }
            _ => break,
        }
    }
    Some(Packet { from: packet.src_addr().into(), to: packet.dst_addr().into(), protocol, payload, fragment })
}

/// Who sent a packet, and to whom; for what only routes.
pub(crate) fn addresses(bytes: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match bytes.first()? >> 4 {
        4 => {
            let (from, to) = (bytes.get(12..16)?, bytes.get(16..20)?);
            Some((<[u8; 4]>::try_from(from).ok()?.into(), <[u8; 4]>::try_from(to).ok()?.into()))
        }
        6 => {
            let (from, to) = (bytes.get(8..24)?, bytes.get(24..40)?);
            Some((<[u8; 16]>::try_from(from).ok()?.into(), <[u8; 16]>::try_from(to).ok()?.into()))
        }
        _ => None,
    }
}

/// How long the header of a packet to this address is.
pub(crate) fn header_len(to: IpAddr) -> usize {
    if to.is_ipv4() { IPV4_HEADER_LEN } else { IPV6_HEADER_LEN }
}

/// Writes a header before the payload that the rest of `packet` is; both addresses are of one version.
pub(crate) fn write_header(packet: &mut [u8], from: IpAddr, to: IpAddr, protocol: IpProtocol) {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = Ipv4Repr {
                src_addr: from,
                dst_addr: to,
                next_header: protocol,
                payload_len: packet.len() - IPV4_HEADER_LEN,
                hop_limit: HOPS,
            };
            header.emit(&mut Ipv4Packet::new_unchecked(packet), &ChecksumCapabilities::default());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Repr {
                src_addr: from,
                dst_addr: to,
                next_header: protocol,
                payload_len: packet.len() - IPV6_HEADER_LEN,
                hop_limit: HOPS,
            };
            header.emit(&mut Ipv6Packet::new_unchecked(packet));
        }
        // No caller has such a pair; an empty packet goes nowhere.
        _ => packet.fill(0),
    }
}

/// Whether an address is of one machine, so that it may be one end of a flow.
pub(crate) fn is_single(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
        }
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let mut bytes = vec![7; header_len(to) + 100];
            write_header(&mut bytes, from, to, IpProtocol::Udp);
            let packet = read(&bytes).unwrap();
            assert_eq!((packet.from, packet.to, packet.protocol), (from, to, IpProtocol::Udp));
            assert_eq!((packet.payload, packet.fragment), (&[7; 100][..], None));
            assert_eq!(addresses(&bytes), Some((from, to)));
            // Behind it may be padding.
            bytes.extend([0; 12]);
            assert_eq!(read(&bytes).unwrap().payload.len(), 100);
            bytes.truncate(90);
            assert!(read(&bytes).is_none());
        }
    }

    #[test]
    fn extension_headers_are_passed() {
        let (from, to): (IpAddr, IpAddr) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let mut bytes = vec![0; 40 + 16 + 8 + 4];
        write_header(&mut bytes, from, to, IpProtocol::HopByHop);
        bytes[40..42].copy_from_slice(&[u8::from(IpProtocol::Ipv6Frag), 1]);
        bytes[56..64].copy_from_slice(&[u8::from(IpProtocol::Udp), 0, 0x01, 0x01, 0, 0, 0, 9]);
        let packet = read(&bytes).unwrap();
        assert_eq!(packet.fragment, Some(Fragment { id: 9, offset: 256, is_last: false }));
        assert_eq!((packet.protocol, packet.payload.len()), (IpProtocol::Udp, 4));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_not(mut bytes in prop::collection::vec(any::<u8>(), 0..120), version in 0u8..3) {
            if let Some(first) = bytes.first_mut() {
                *first = [0x45, 0x60, *first][version as usize];
            }
            let _ = (read(&bytes), addresses(&bytes));
        }
    }
}
