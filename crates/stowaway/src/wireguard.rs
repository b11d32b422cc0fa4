//! What both ends have to know of WireGuard: inside of it the hub has an address of its own, where laptops of ours find the port
//! for links. It is the same in every cluster and nobody else's: addresses that stand for nothing (RFC 7600, RFC 6666). It is
//! also where what the hub opens to peers comes from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The hub's address inside of WireGuard, for peers with addresses of IPv4.
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// The same for peers with addresses of IPv6.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 8);
/// The port for links there.
pub const LINK_PORT: u16 = 7844;

/// The hub as a peer with this address sees it.
pub(crate) fn gateway(peer: IpAddr, port: u16) -> SocketAddr {
    match peer {
        IpAddr::V4(_) => (GATEWAY_V4, port).into(),
        IpAddr::V6(_) => (GATEWAY_V6, port).into(),
    }
}
