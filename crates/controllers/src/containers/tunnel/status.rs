//! A tunnel proxy's status, computed from what is asked for and what its worker tells. Pure: the time is an argument.
//! `Ready` is true when every tunnel would carry traffic.

mod conditions;

use causeway_api::conditions::{self as api, ConditionType, Reason, Status};
use causeway_api::{
    ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus, TunnelProtocol, TunnelProxyState,
    TunnelState, TunnelStatus,
};
use causeway_ir::tunnel as carried;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use k8s_openapi::jiff::Timestamp;

use super::desired::{Desired, DesiredTunnel};
use super::state::{CarriedTunnel, Phase, State};
use crate::framework::events::{Note, Severity};
use crate::framework::finding::Finding;
use crate::framework::report;
use crate::framework::status::{Shared, transitions, whole_seconds};

/// The condition types that this controller writes; others are left alone.
const OWN_CONDITIONS: [ConditionType; 6] = [
    ConditionType::Ready,
    ConditionType::RuntimeAvailable,
    ConditionType::ImageBuilt,
    ConditionType::LinkUp,
    ConditionType::TunnelsReady,
    ConditionType::Deleting,
];

/// So many ports are shown in a column; the status has them all.
const MOST_PORTS: usize = 8;

/// What a status is computed from.
pub(crate) struct Input<'a> {
    /// The object.
    pub(crate) proxy: &'a ContainerNetworkTunnelProxy,
    /// What it asks for.
    pub(crate) desired: &'a Desired,
    /// What its worker tells.
    pub(crate) state: &'a State,
    /// EndpointSlices that could not be written, and why.
    pub(crate) failures: Vec<String>,
    /// The file with the journal.
    pub(crate) journal: String,
    /// The file with what the host end prints.
    pub(crate) output: String,
}

impl Shared for ContainerNetworkTunnelProxyStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = &OWN_CONDITIONS;

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

/// The status that follows `previous`.
pub(crate) fn next(
    previous: &ContainerNetworkTunnelProxyStatus,
    input: &Input<'_>,
    now: Timestamp,
) -> ContainerNetworkTunnelProxyStatus {
    let Input { desired, state, .. } = input;
    let generation = input.proxy.metadata.generation.unwrap_or_default();
    let tunnels = tunnels(previous, desired, state, now);
    let mut conditions = previous.conditions.clone();
    let mut set =
        |kind, finding: Finding| finding.set(&mut conditions, kind, generation, &whole_seconds(now));
    set(ConditionType::RuntimeAvailable, conditions::runtime_available(state));
    set(ConditionType::ImageBuilt, conditions::image_built(desired, state));
    set(ConditionType::LinkUp, conditions::link_up(desired, state));
    set(ConditionType::TunnelsReady, conditions::tunnels_ready(input, &tunnels));
    let ready = conditions::ready(input, &tunnels);
    let message = (ready.status != Status::True).then(|| report::cut(&ready.message, report::NOTE_LIMIT));
    set(ConditionType::Ready, ready);
    let client = state.client.as_ref();
    ContainerNetworkTunnelProxyStatus {
        conditions,
        observed_generation: Some(generation),
        state: Some(proxy_state(state)),
        message,
        tunnel_configuration_version: Some(version(previous, &tunnels)),
        client_proxy_address: client.and_then(|client| client.addresses.first()).map(ToString::to_string),
        client_proxy_ports: ports(desired, &tunnels),
        tunnel_statuses: tunnels,
        client_proxy_container_image: state.image.clone(),
        client_proxy_container_id: client.map(|client| client.id.clone()),
        client_proxy_control_port: client.map(|client| client.control_port.into()),
        client_proxy_data_port: client.map(|client| client.data_port.into()),
        server_proxy_process_id: state.host.as_ref().map(|host| host.pid.into()),
        server_proxy_startup_timestamp: state.host.as_ref().map(|host| MicroTime(host.since)),
        server_proxy_std_out_file: Some(input.journal.clone()),
        server_proxy_std_err_file: Some(input.output.clone()),
        // The host end listens on a Unix socket alone.
        server_proxy_control_port: None,
    }
}

/// The status of an object that waits for its clean-up.
pub(crate) fn deleting(
    previous: &ContainerNetworkTunnelProxyStatus,
    state: &State,
    failures: &[String],
    generation: i64,
    now: Timestamp,
) -> ContainerNetworkTunnelProxyStatus {
    let mut next = previous.clone();
    let mut problems = failures.to_vec();
    problems.extend(state.problem.as_ref().map(|problem| problem.message.clone()));
    let (reason, message) = if problems.is_empty() {
        (Reason::DeletionInProgress, "streams end and the container is removed".to_owned())
    } else {
        (Reason::CleanupFailed, problems.join("; "))
    };
    let message = report::cut(&message, report::NOTE_LIMIT);
    let now = whole_seconds(now);
    let conditions = &mut next.conditions;
    api::set(conditions, ConditionType::Deleting, Status::True, reason, message.clone(), generation, &now);
    api::set(conditions, ConditionType::Ready, Status::False, reason, message.clone(), generation, &now);
    let is_up = state.is_linked();
    let reason = Reason::DeletionInProgress;
    let ends = "it is being deleted";
    api::set(conditions, ConditionType::LinkUp, is_up.into(), reason, ends, generation, &now);
    api::set(conditions, ConditionType::TunnelsReady, Status::False, reason, ends, generation, &now);
    let client = state.client.as_ref();
    next.state = Some(proxy_state(state));
    next.message = Some(message);
    next.client_proxy_container_id = client.map(|client| client.id.clone());
    next.client_proxy_ports = None;
    next.server_proxy_process_id = state.host.as_ref().map(|host| host.pid.into());
    next.server_proxy_startup_timestamp = state.host.as_ref().map(|host| MicroTime(host.since));
    next.tunnel_statuses.clear();
    next.observed_generation = Some(generation);
    next
}

/// The status of an object of an operator that does not use container runtimes: `why`, and what was known before.
pub(crate) fn switched_off(
    previous: &ContainerNetworkTunnelProxyStatus,
    why: &str,
    is_deleted: bool,
    generation: i64,
    now: Timestamp,
) -> ContainerNetworkTunnelProxyStatus {
    let mut next = previous.clone();
    let now = whole_seconds(now);
    let mut set = |kind, finding: Finding| finding.set(&mut next.conditions, kind, generation, &now);
    set(ConditionType::RuntimeAvailable, Finding::no(Reason::RuntimeUnavailable, why));
    set(ConditionType::Ready, Finding::no(Reason::RuntimeUnavailable, why));
    if is_deleted {
        let message = format!("what was made for it can't be removed: {why}");
        set(ConditionType::Deleting, Finding::yes(Reason::CleanupFailed, message));
    }
    next.state.get_or_insert_default();
    next.message = Some(why.to_owned());
    next.observed_generation = Some(generation);
    next
}

/// What to tell of a change.
pub(crate) fn notes(
    previous: &ContainerNetworkTunnelProxyStatus,
    next: &ContainerNetworkTunnelProxyStatus,
) -> Vec<Note> {
    let changed = transitions(&previous.conditions, &next.conditions);
    // A condition that is not true yet because the proxy only just begins is no news.
    // Nor is it news that a link which is down takes all tunnels along.
    let is_news = |condition: &&&_| {
        let condition: &Condition = condition;
        let is_of_link = condition.type_ == ConditionType::TunnelsReady.as_str()
            && condition.reason == Reason::Disconnected.as_str();
        condition.status != Status::Unknown.as_str()
            && condition.reason != Reason::Progressing.as_str()
            && !is_of_link
    };
    let was_true =
        |kind: &str| previous.conditions.iter().any(|old| old.type_ == kind && old.status == "True");
    let note = |condition: &Condition| {
        let is_good = condition.status == Status::True.as_str();
        let is_under_way = condition.reason == Reason::BuildingImage.as_str();
        let kind = &condition.type_;
        Note {
            severity: if is_good || is_under_way { Severity::Normal } else { Severity::Warning },
            // What never was can't be lost: then it says what is in the way.
            reason: match (is_good, was_true(kind)) {
                (true, _) => kind.clone(),
                (false, true) => format!("{kind}Lost"),
                (false, false) => condition.reason.clone(),
            },
            action: "Carry",
            text: condition.message.clone(),
        }
    };
    let mut notes: Vec<_> = changed.iter().filter(is_news).map(|condition| note(condition)).collect();
    let is_linked = api::find(&next.conditions, ConditionType::LinkUp)
        .is_some_and(|condition| condition.status == Status::True.as_str());
    for tunnel in &next.tunnel_statuses {
        let before = previous.tunnel_statuses.iter().find(|known| known.name == tunnel.name);
        let was = before.and_then(|known| known.state);
        let is_said = is_linked || tunnel.state == Some(TunnelState::Failed);
        if is_said && was != tunnel.state && (was.is_some() || tunnel.state != Some(TunnelState::NotReady)) {
            notes.extend(tunnel_note(tunnel));
        }
    }
    notes
}

fn tunnel_note(tunnel: &TunnelStatus) -> Option<Note> {
    let name = &tunnel.name;
    let why = tunnel.error_message.as_deref();
    let (severity, reason, text) = match tunnel.state? {
        TunnelState::Ready => {
            let port = tunnel.client_proxy_port.unwrap_or_default();
            (Severity::Normal, "TunnelReady", format!("tunnel {name} carries what comes to port {port}"))
        }
        TunnelState::NotReady => (Severity::Normal, "TunnelNotReady", format!("tunnel {name}: {}", why?)),
        TunnelState::Failed => (Severity::Warning, "TunnelFailed", format!("tunnel {name}: {}", why?)),
    };
    Some(Note { severity, reason: reason.to_owned(), action: "Carry", text })
}

fn proxy_state(state: &State) -> TunnelProxyState {
    if state.problem.as_ref().is_some_and(|problem| problem.is_permanent) {
        return TunnelProxyState::Failed;
    }
    match state.phase {
        Phase::Looking | Phase::Waiting | Phase::Ending | Phase::Gone => TunnelProxyState::Pending,
        Phase::BuildingImage => TunnelProxyState::BuildingImage,
        Phase::Linked if state.is_linked() => TunnelProxyState::Running,
        Phase::Starting | Phase::Linked => TunnelProxyState::Starting,
    }
}

/// Each tunnel that is asked for, by name.
fn tunnels(
    previous: &ContainerNetworkTunnelProxyStatus,
    desired: &Desired,
    state: &State,
    now: Timestamp,
) -> Vec<TunnelStatus> {
    let mut all: Vec<_> = desired
        .tunnels
        .iter()
        .map(|wanted| {
            let before = previous.tunnel_statuses.iter().find(|known| known.name == wanted.spec.name);
            tunnel(before, wanted, state.tunnels.get(&wanted.spec.name), state, now)
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn tunnel(
    before: Option<&TunnelStatus>,
    wanted: &DesiredTunnel,
    carried: Option<&CarriedTunnel>,
    state: &State,
    now: Timestamp,
) -> TunnelStatus {
    let (tunnel_state, error_message) = judge(wanted, carried, state);
    // While nothing is known of it, the last that was known stays: the port that it had, it gets again.
    let port = carried.and_then(CarriedTunnel::port).map(i32::from);
    let addresses = match (&state.client, tunnel_state) {
        (Some(client), TunnelState::Ready) => client.addresses.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let is_same = before.is_some_and(|before| before.state == Some(tunnel_state));
    TunnelStatus {
        name: wanted.spec.name.clone(),
        tunnel_id: carried
            .map(|carried| carried.id)
            .or(before.map(|before| before.tunnel_id))
            .unwrap_or_default(),
        state: Some(tunnel_state),
        error_message,
        client_proxy_addresses: addresses,
        client_proxy_port: port.or(before.and_then(|before| before.client_proxy_port)),
        timestamp: before
            .filter(|_| is_same)
            .and_then(|before| before.timestamp.clone())
            .or(Some(MicroTime(now))),
    }
}

/// Whether nothing is known yet of a tunnel that nothing is known to be in the way of.
fn is_under_way(wanted: &DesiredTunnel, carried: Option<&CarriedTunnel>) -> bool {
    let state = carried.map(|carried| &carried.state);
    wanted.problem.is_none() && matches!(state, None | Some(carried::TunnelState::Pending))
}

/// Whether a tunnel carries traffic, and if not, why.
fn judge(
    wanted: &DesiredTunnel,
    carried: Option<&CarriedTunnel>,
    state: &State,
) -> (TunnelState, Option<String>) {
    if let Some(problem) = &wanted.problem {
        let state = if problem.is_permanent { TunnelState::Failed } else { TunnelState::NotReady };
        return (state, Some(problem.message.clone()));
    }
    if !state.is_linked() {
        let why = state.halted.as_deref().unwrap_or("the two ends do not talk to each other");
        return (TunnelState::NotReady, Some(why.to_owned()));
    }
    match carried.map(|carried| &carried.state) {
        None | Some(carried::TunnelState::Pending) => {
            (TunnelState::NotReady, Some("the client end is told to listen".to_owned()))
        }
        Some(carried::TunnelState::Listening { .. }) => (TunnelState::Ready, None),
        Some(carried::TunnelState::Unreachable { error, .. }) => (TunnelState::NotReady, Some(error.clone())),
        Some(carried::TunnelState::NoEndpoints { .. }) => {
            (TunnelState::NotReady, Some("no endpoint of the server's Service is ready".to_owned()))
        }
        Some(carried::TunnelState::Failed { error }) => (TunnelState::Failed, Some(error.clone())),
    }
}

/// The ports that carry traffic, for a column of a table.
fn ports(desired: &Desired, tunnels: &[TunnelStatus]) -> Option<String> {
    let of = |tunnel: &TunnelStatus| {
        let port = tunnel.client_proxy_port.filter(|_| tunnel.state == Some(TunnelState::Ready))?;
        let wanted = desired.tunnels.iter().find(|wanted| wanted.spec.name == tunnel.name)?;
        Some(match wanted.spec.protocol {
            TunnelProtocol::Tcp => port.to_string(),
            TunnelProtocol::Udp => format!("{port}/UDP"),
        })
    };
    let mut ports: Vec<_> = tunnels.iter().filter_map(of).collect();
    let more = ports.len().saturating_sub(MOST_PORTS);
    ports.truncate(MOST_PORTS);
    if more > 0 {
        ports.push(format!("{more} more"));
    }
    (!ports.is_empty()).then(|| ports.join(","))
}

/// Counts on when a tunnel came, went or became another.
fn version(previous: &ContainerNetworkTunnelProxyStatus, tunnels: &[TunnelStatus]) -> i32 {
    let essence = |tunnel: &TunnelStatus| {
        (
            tunnel.name.clone(),
            tunnel.tunnel_id,
            tunnel.state,
            tunnel.client_proxy_port,
            tunnel.client_proxy_addresses.clone(),
        )
    };
    let is_same = previous.tunnel_statuses.iter().map(essence).eq(tunnels.iter().map(essence));
    let known = previous.tunnel_configuration_version.unwrap_or_default();
    if is_same { known } else { known.wrapping_add(1).max(1) }
}

#[cfg(test)]
mod tests;
