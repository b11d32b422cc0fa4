//! Listeners that want the same port.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::Findings;
use crate::Listener;

/// Reports each listener whose address an earlier one has.
pub(super) fn check(found: &mut Findings, listeners: &[Listener]) {
    let mut by_port: HashMap<(bool, u16, bool), Vec<(usize, SocketAddr)>> = HashMap::new();
    for (i, listener) in listeners.iter().enumerate().filter(|(_, listener)| listener.bind.port() != 0) {
        let address = listener.bind;
        let same =
            by_port.entry((listener.protocol.is_udp(), address.port(), address.is_ipv4())).or_default();
        let clash = same.iter().find(|(_, other)| {
            other.ip() == address.ip() || other.ip().is_unspecified() || address.ip().is_unspecified()
        });
        if let Some((first, other)) = clash {
            found.add(
                format!("listeners[{i}].bind"),
                format!(
                    "{address} clashes with {other} of listeners[{first}]: put their routes in one listener"
                ),
            );
        }
        same.push((i, address));
    }
}
