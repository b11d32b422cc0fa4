//! Version 2: a binary header of addresses and TLVs. The TLVs are stepped over, but a CRC32c among them is
//! checked. A LOCAL header and one of unspecified family are taken as they are: their contents mean nothing.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Header, LIMIT, Pair, Parsed, checksum};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

const FIXED: usize = 16;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const CRC32C: u8 = 0x03;

type Addresses = Option<(SocketAddr, SocketAddr)>;

pub(super) fn parse(bytes: &[u8]) -> Parsed {
    if let Some(command) = bytes.get(SIGNATURE.len())
        && ![LOCAL, PROXY].contains(command)
    {
        return Parsed::Invalid("the PROXY header has an unknown version or command");
    }
    let Some(fixed) = bytes.first_chunk::<FIXED>() else { return Parsed::NeedMore };
    let [.., command, family, high, low] = *fixed;
    let length = FIXED + usize::from(u16::from_be_bytes([high, low]));
    if length > LIMIT {
        return Parsed::Invalid("the PROXY header is longer than 4 KiB");
    }
    let Some(header) = bytes.get(..length) else { return Parsed::NeedMore };
    if command == LOCAL {
        return Parsed::Header(Header { addresses: None, length });
    }
    match contents(family, header) {
        Ok(addresses) => Parsed::Header(Header { addresses, length }),
        Err(reason) => Parsed::Invalid(reason),
    }
}

pub(super) fn encode(pair: Pair) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.push(PROXY);
    match pair {
        Pair::V4(from, to) => {
            header.extend([TCP4, 0, 12]);
            header.extend(from.ip().octets());
            header.extend(to.ip().octets());
            header.extend(from.port().to_be_bytes());
            header.extend(to.port().to_be_bytes());
        }
        Pair::V6(from, to) => {
            header.extend([TCP6, 0, 36]);
            header.extend(from.ip().octets());
            header.extend(to.ip().octets());
            header.extend(from.port().to_be_bytes());
            header.extend(to.port().to_be_bytes());
        }
    }
    header
}

fn contents(family: u8, header: &[u8]) -> Result<Addresses, &'static str> {
    const SHORT: &str = "the PROXY header is too short for its addresses";
    const UNIX_ADDRESSES: usize = 2 * 108;
    let body = &header[FIXED..];
    let (addresses, taken) = match family {
        0x00 => return Ok(None),
        TCP4 | 0x12 => (Some(inet(body).ok_or(SHORT)?), 12),
        TCP6 | 0x22 => (Some(inet6(body).ok_or(SHORT)?), 36),
        0x31 | 0x32 => (None, UNIX_ADDRESSES),
        _ => return Err("the PROXY header has an unknown address family or protocol"),
    };
    check_tlvs(header, body.get(taken..).ok_or(SHORT)?)?;
    Ok(addresses)
}

fn inet(body: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (from, rest) = body.split_first_chunk::<4>()?;
    let (to, rest) = rest.split_first_chunk::<4>()?;
    let (from_port, to_port) = ports(rest)?;
    Some(((Ipv4Addr::from(*from), from_port).into(), (Ipv4Addr::from(*to), to_port).into()))
}

fn inet6(body: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (from, rest) = body.split_first_chunk::<16>()?;
    let (to, rest) = rest.split_first_chunk::<16>()?;
    let (from_port, to_port) = ports(rest)?;
    Some(((Ipv6Addr::from(*from), from_port).into(), (Ipv6Addr::from(*to), to_port).into()))
}

fn ports(rest: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *rest.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Walks the TLVs at the end of `header`: each must fit, and a checksum must be right.
fn check_tlvs(header: &[u8], mut tlvs: &[u8]) -> Result<(), &'static str> {
    const CUT: &str = "a TLV runs past the end of the PROXY header";
    while !tlvs.is_empty() {
        let ([kind, high, low], rest) = tlvs.split_first_chunk::<3>().ok_or(CUT)?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (value, rest) = rest.split_at_checked(length).ok_or(CUT)?;
        if *kind == CRC32C {
            let sent = value.try_into().ok().map(u32::from_be_bytes);
            let at = header.len() - rest.len() - value.len();
            if sent != Some(checksum::with_zeroed_field(header, at)) {
                return Err("the PROXY header's checksum is wrong");
            }
        }
        tlvs = rest;
    }
    Ok(())
}
