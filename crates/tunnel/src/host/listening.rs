//! Whether anybody listens for datagrams somewhere, without sending any to those who might: what is on this host's
//! loopback shows in the kernel's table; elsewhere the answers to what clients sent tell, and only where such an answer
//! said that nobody listens, an empty datagram asks whether that is still so.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long a refusal may take to come back.
const REFUSAL: Duration = Duration::from_secs(1);
/// The table is not read more often, for however many tunnels.
const FRESH: Duration = Duration::from_millis(500);

/// Those of `targets` where nobody listens, `known` being those that were so before.
pub(super) async fn deaf(
    targets: &[SocketAddr],
    known: &HashSet<SocketAddr>,
    bound: &BoundPorts,
) -> HashSet<SocketAddr> {
    let mut deaf = HashSet::new();
    for target in targets {
        let is_deaf = if target.ip().is_loopback() {
            !bound.has(*target).await
        } else {
            known.contains(target) && refuses(*target).await
        };
        if is_deaf {
            deaf.insert(*target);
        }
    }
    deaf
}

/// Whether the host there says that nobody listens.
async fn refuses(target: SocketAddr) -> bool {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let ask = async {
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(target).await?;
        socket.send(&[]).await?;
        socket.recv(&mut [0]).await
    };
    matches!(timeout(REFUSAL, ask).await, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// The ports of this host that somebody has bound for datagrams, as they were a moment ago.
#[derive(Default)]
pub(super) struct BoundPorts(Mutex<Option<(Instant, HashSet<SocketAddr>)>>);

impl BoundPorts {
    /// Whether somebody would get what is sent to this address of this host; also if that can't be known.
    async fn has(&self, address: SocketAddr) -> bool {
        let mut seen = self.0.lock().await;
        if seen.as_ref().is_none_or(|(at, _)| at.elapsed() > FRESH) {
            // A panic in there was reported where it happened.
            let Some(read) = tokio::task::spawn_blocking(read).await.ok().flatten() else { return true };
            *seen = Some((Instant::now(), read));
        }
        let Some((_, bound)) = &*seen else { return true };
        let port = address.port();
        let wildcards =
            [SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), (Ipv6Addr::UNSPECIFIED, port).into()];
        // A socket for IPv6 may take IPv4 too; one for IPv4 never takes IPv6.
        bound.contains(&address)
            || bound.contains(&wildcards[1])
            || address.is_ipv4() && bound.contains(&wildcards[0])
    }
}

/// Reads the kernel's tables; none where there are none.
fn read() -> Option<HashSet<SocketAddr>> {
    let ipv4 = std::fs::read_to_string("/proc/net/udp").ok()?;
    // A kernel without IPv6 has no such table.
    let ipv6 = std::fs::read_to_string("/proc/net/udp6").unwrap_or_default();
    Some(ipv4.lines().chain(ipv6.lines()).filter_map(unconnected).collect())
}

/// The address of a socket that takes datagrams from anybody, in a line of the table.
fn unconnected(line: &str) -> Option<SocketAddr> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (bound, peer) = (address(fields.next()?)?, address(fields.next()?)?);
    (peer.port() == 0).then_some(bound)
}

/// An address as the kernel writes it: words in the order of the machine, the port as people do.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => word(0)?.into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let octets: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_table_of_the_kernel() {
        let line =
            "  478: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 17";
        assert_eq!(unconnected(line), Some("127.0.0.1:53".parse().expect("an address")));
        let talking = line.replace("00000000:0000 07", "0100007F:1234 01");
        assert_eq!(unconnected(&talking), None, "it takes from one peer alone");
        let six = "1: 00000000000000000000000001000000:14E9 00000000000000000000000000000000:0000 07";
        assert_eq!(unconnected(six), Some("[::1]:5353".parse().expect("an address")));
        assert_eq!(unconnected("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }

    #[tokio::test]
    async fn who_listens_on_loopback_is_known_without_asking() {
        let mine = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let wild = std::net::UdpSocket::bind("0.0.0.0:0").expect("a port");
        let here = mine.local_addr().expect("an address");
        let anywhere = SocketAddr::from(([127, 0, 0, 1], wild.local_addr().expect("an address").port()));
        let free = {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.local_addr().expect("an address")
        };
        let deaf = deaf(&[here, anywhere, free], &HashSet::new(), &BoundPorts::default()).await;
        assert_eq!(deaf, HashSet::from([free]));
    }

    #[tokio::test]
    async fn a_host_that_refuses_is_asked_again() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        assert!(!refuses(address).await, "somebody listens");
        drop(socket);
        assert!(refuses(address).await);
    }
}
