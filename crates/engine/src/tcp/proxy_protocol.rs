//! The PROXY protocol, versions 1 (text) and 2 (binary): tells the next hop who the client is. Parsing is
//! without IO and bounded; a connection that does not open with a header is known by its first odd byte.

mod checksum;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The most bytes that a header of either version may take.
pub const LIMIT: usize = 4 << 10;

/// What the first bytes of a connection say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// So far it is the beginning of a header.
    NeedMore,
    /// No header: these are the client's own bytes.
    Absent,
    /// A whole header.
    Header(Header),
    /// A header that must not be trusted; the text says what is wrong.
    Invalid(&'static str),
}

/// A header at the front of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The client's address and the address it connected to. Absent if the sender speaks for itself (LOCAL,
    /// such as a health check) or cannot name them (UNKNOWN, UNSPEC, Unix sockets): the connection's count.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// How many bytes the header takes; the client's bytes follow.
    pub length: usize,
}

/// Reads a header of either version from the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    if starts_like(bytes, v1::SIGNATURE) {
        v1::parse(bytes)
    } else if starts_like(bytes, v2::SIGNATURE) {
        v2::parse(bytes)
    } else {
        Parsed::Absent
    }
}

/// A version 1 header for a TCP connection.
pub fn encode_v1(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    v1::encode(Pair::new(source, destination))
}

/// A version 2 header for a TCP connection.
pub fn encode_v2(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    v2::encode(Pair::new(source, destination))
}

/// Whether `bytes` begins with `signature` or with as much of it as has arrived.
fn starts_like(bytes: &[u8], signature: &[u8]) -> bool {
    bytes.iter().zip(signature).all(|(a, b)| a == b)
}

/// Two addresses of one family, as a header wants them.
enum Pair {
    V4(SocketAddrV4, SocketAddrV4),
    V6(SocketAddrV6, SocketAddrV6),
}

impl Pair {
    /// IPv4 wherever both can be: a dual-stack socket shows IPv4 peers as mapped IPv6 addresses.
    fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        match (source.ip().to_canonical(), destination.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Self::V4(SocketAddrV4::new(from, source.port()), SocketAddrV4::new(to, destination.port()))
            }
            (from, to) => Self::V6(v6(from, source.port()), v6(to, destination.port())),
        }
    }
}

fn v6(address: IpAddr, port: u16) -> SocketAddrV6 {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    SocketAddrV6::new(address, port, 0, 0)
}
