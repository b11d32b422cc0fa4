//! Ends for flows that are opened from here.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use crate::flow::Ends;
use crate::ip;

/// Where ports for flows of this side are taken from.
const PORTS: Range<u16> = 32_768..61_000;

/// What is said when all places are taken.
pub(super) fn no_place() -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, "the network stack has no place for another flow")
}

/// Ends of a flow that is not there yet.
pub(super) fn free_ends<T>(flows: &HashMap<Ends, T>, from: SocketAddr, to: SocketAddr) -> io::Result<Ends> {
    let ends = |port: u16| Ends { here: SocketAddr::new(from.ip(), port), there: to };
    let is_usable = from.is_ipv4() == to.is_ipv4() && to.port() != 0;
    if !is_usable || !ip::is_single(from.ip()) || !ip::is_single(to.ip()) {
        let text = format!("no flow leads from {} to {to}", from.ip());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let found = if from.port() == 0 {
        let first = causeway_base::random::below(PORTS.len() as u64) as u16;
        let mut ports = (0..PORTS.len() as u16).map(|n| PORTS.start + (first + n) % PORTS.len() as u16);
        ports.find(|port| !flows.contains_key(&ends(*port))).map(ends)
    } else {
        Some(ends(from.port())).filter(|ends| !flows.contains_key(ends))
    };
    found.ok_or_else(|| io::ErrorKind::AddrInUse.into())
}
