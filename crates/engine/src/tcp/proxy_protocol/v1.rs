//! Version 1: one line of text, `PROXY TCP4 source destination port port`, ended by CR LF.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Header, Pair, Parsed};

pub(super) const SIGNATURE: &[u8] = b"PROXY ";

/// The longest line, CR LF included.
const LONGEST_LINE: usize = 107;

pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let window = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = window.iter().position(|b| *b == b'\n') else {
        return if window.len() < LONGEST_LINE {
            Parsed::NeedMore
        } else {
            Parsed::Invalid("the PROXY line is longer than 107 bytes")
        };
    };
    let Some(line) = window[..end].strip_suffix(b"\r") else {
        return Parsed::Invalid("the PROXY line does not end with CR LF");
    };
    match addresses(line) {
        Ok(addresses) => Parsed::Header(Header { addresses, length: end + 1 }),
        Err(reason) => Parsed::Invalid(reason),
    }
}

pub(super) fn encode(pair: Pair) -> Vec<u8> {
    match pair {
        Pair::V4(from, to) => line("TCP4", from.into(), to.into()),
        Pair::V6(from, to) => line("TCP6", from.into(), to.into()),
    }
}

fn line(family: &str, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port()).into_bytes()
}

fn addresses(line: &[u8]) -> Result<Option<(SocketAddr, SocketAddr)>, &'static str> {
    let words = line.strip_prefix(SIGNATURE).ok_or("the PROXY line ends before the protocol")?;
    // The sender may write anything after UNKNOWN.
    if words == b"UNKNOWN" || words.starts_with(b"UNKNOWN ") {
        return Ok(None);
    }
    let words = str::from_utf8(words).map_err(|_| "the PROXY line is not ASCII")?;
    let mut words = words.split(' ');
    let addresses = match words.next() {
        Some("TCP4") => pair::<Ipv4Addr>(&mut words),
        Some("TCP6") => pair::<Ipv6Addr>(&mut words),
        _ => return Err("the PROXY line names a protocol other than TCP4, TCP6 and UNKNOWN"),
    };
    match (addresses, words.next()) {
        (Some(addresses), None) => Ok(Some(addresses)),
        _ => Err("the PROXY line does not have two addresses of its protocol and two ports"),
    }
}

fn pair<'a, A: FromStr + Into<IpAddr>>(
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<(SocketAddr, SocketAddr)> {
    let from: A = words.next()?.parse().ok()?;
    let to: A = words.next()?.parse().ok()?;
    let from_port = port(words.next()?)?;
    let to_port = port(words.next()?)?;
    Some((SocketAddr::new(from.into(), from_port), SocketAddr::new(to.into(), to_port)))
}

/// A decimal port without sign or leading zeros.
fn port(word: &str) -> Option<u16> {
    let canonical = word == "0" || word.starts_with(|first: char| matches!(first, '1'..='9'));
    word.parse().ok().filter(|_| canonical)
}
