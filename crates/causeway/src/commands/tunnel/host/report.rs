//! What the host end says of itself, in the words of the protocol.

use causeway_controllers::containers::tunnel::host::protocol;
use causeway_tunnel::host::{self, Host};

use super::directory::HostDirectory;

/// What is said before anything is known.
pub(super) fn first(directory: &HostDirectory) -> protocol::Status {
    protocol::Status {
        protocol: protocol::PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: directory.record().process.pid,
        started_at: directory.record().started_at,
        link: protocol::LinkState::default(),
        tunnels: std::collections::BTreeMap::new(),
        streams: 0,
        plan_error: None,
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
    status.link = link(now.link);
    status.tunnels = now
        .tunnels
        .into_iter()
        .map(|(id, state)| {
            let counters = host.counters(id).map(counters).unwrap_or_default();
            (id, protocol::Tunnel { state: tunnel(state), counters })
        })
        .collect();
    // Also those of tunnels that are not asked for any more.
    status.streams = host.streams() as u64;
    status
}

fn link(state: host::LinkState) -> protocol::LinkState {
    match state {
        host::LinkState::Up => protocol::LinkState::Up,
        host::LinkState::Connecting { attempt, error } => protocol::LinkState::Connecting { attempt, error },
    }
}

fn tunnel(state: host::TunnelState) -> protocol::TunnelState {
    match state {
        host::TunnelState::Pending => protocol::TunnelState::Pending,
        host::TunnelState::Listening { port } => protocol::TunnelState::Listening { port },
        host::TunnelState::Unreachable { port, error } => protocol::TunnelState::Unreachable { port, error },
        host::TunnelState::NoTargets { port } => protocol::TunnelState::NoEndpoints { port },
        host::TunnelState::Failed { error } => protocol::TunnelState::Failed { error },
    }
}

fn counters(counters: causeway_tunnel::Counters) -> protocol::Counters {
    let causeway_tunnel::Counters { streams, opened, refused, to_host, to_container, last_error } = counters;
    protocol::Counters { streams, opened, refused, to_host, to_container, last_error }
}
