//! What the host end says of itself, in the words of the protocol.

use causeway_ir::tunnel::{LinkState, protocol};
use causeway_tunnel::host::Host;

use super::connection::BEAT;
use super::directory::HostDirectory;

/// What is said before anything is known.
pub(super) fn first(directory: &HostDirectory) -> protocol::Status {
    protocol::Status {
        protocol: protocol::PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        plan: protocol::PLAN,
        pid: directory.record().process.pid,
        started_at: directory.record().started_at,
        link: LinkState::default(),
        tunnels: std::collections::BTreeMap::new(),
        streams: 0,
        plan_error: None,
        beat_millis: Some(BEAT.as_millis() as u64),
    }
}

/// What follows on what was said before.
pub(super) fn of(
    before: &protocol::Status,
    host: Option<&Host>,
    plan_error: Option<String>,
) -> protocol::Status {
    let mut status = protocol::Status { plan_error, ..before.clone() };
    let Some(host) = host else { return status };
    let now = host.status().borrow().clone();
    status.link = now.link;
    status.tunnels = now
        .tunnels
        .into_iter()
        .map(|(id, state)| {
            let counters = host.counters(id).unwrap_or_default();
            (id, protocol::Tunnel { state, counters })
        })
        .collect();
    // Also those of tunnels that are not asked for any more.
    status.streams = host.streams() as u64;
    status
}
