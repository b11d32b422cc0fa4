//! HTTPS listeners of one port whose hosts are hosts of another one, too. A browser may then take the connection that it has
//! to the one for requests to the other, which is answered with 421; who wonders finds the reason in the status.

use std::collections::HashMap;

use causeway_ir::Pattern;

use super::{Bound, Protocol};
use crate::gateway::hosts;

/// Marks each listener that shares hosts with another.
pub(super) fn mark(bound: &mut [Bound<'_>]) {
    let mut ports: HashMap<u16, HashMap<Option<Pattern>, usize>> = HashMap::new();
    for (place, listener) in bound.iter().enumerate() {
        if listener.accepted.holds && listener.protocol == Some(Protocol::Https) {
            ports.entry(listener.spec.port).or_default().insert(listener.host.clone(), place);
        }
    }
    for listeners in ports.values() {
        for (host, place) in listeners {
            let Some(host) = host else { continue };
            for wider in hosts::wider(host) {
                let Some(other) = listeners.get(&wider) else { continue };
                for (one, of) in [(*place, *other), (*other, *place)] {
                    // The first by its place is named, so that the words are the same at every look.
                    let named = bound[one].overlaps.map_or(of, |before| before.min(of));
                    bound[one].overlaps = Some(named);
                }
            }
        }
    }
}
