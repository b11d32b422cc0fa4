//! What the client end says when it opens a stream: for which tunnel, and for which client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use causeway_ir::tunnel::TunnelId;

/// The request of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) tunnel: TunnelId,
    pub(crate) source: SocketAddr,
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.tunnel.to_be_bytes().to_vec();
        out.extend(self.source.port().to_be_bytes());
        match self.source.ip() {
            IpAddr::V4(ip) => out.extend(ip.octets()),
            IpAddr::V6(ip) => out.extend(ip.octets()),
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (tunnel, rest) = bytes.split_first_chunk::<4>()?;
        let (port, ip) = rest.split_first_chunk::<2>()?;
        let ip: IpAddr = if let Ok(octets) = <[u8; 4]>::try_from(ip) {
            Ipv4Addr::from(octets).into()
        } else {
            Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?).into()
        };
        let source = SocketAddr::new(ip, u16::from_be_bytes(*port));
        Some(Self { tunnel: u32::from_be_bytes(*tunnel), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for source in ["10.0.0.7:4000", "[fd00::7]:4000"] {
            let request = Request { tunnel: 3, source: source.parse().expect("an address") };
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Some(request));
            for cut in 0..bytes.len() {
                // An IPv6 address that is cut to four bytes is an IPv4 address.
                assert!(cut == 10 || Request::decode(&bytes[..cut]).is_none(), "{source} cut at {cut}");
            }
        }
    }
}
