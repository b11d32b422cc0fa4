//! What each condition of a tunnel proxy says.

use causeway_api::conditions::{Reason, Status};
use causeway_api::{TunnelState, TunnelStatus};
use causeway_ir::tunnel::LinkState;

use super::{Input, is_under_way};
use crate::containers::tunnel::desired::{Desired, DesiredTunnel};
use crate::containers::tunnel::state::{Phase, QUIET_ATTEMPTS, RuntimeState, State};
use crate::framework::finding::Finding;

pub(crate) fn runtime_available(state: &State) -> Finding {
    match &state.runtime {
        RuntimeState::Unknown => Finding::unknown("looking for a container runtime"),
        RuntimeState::Unavailable(why) => Finding::no(Reason::RuntimeUnavailable, why),
        RuntimeState::Available(which) => Finding::yes(Reason::Ready, format!("{which} answers")),
    }
}

pub(crate) fn image_built(desired: &Desired, state: &State) -> Finding {
    match (&state.image, state.phase, &state.problem) {
        (Some(image), ..) => Finding::yes(Reason::Ready, image),
        (None, _, Some(problem)) if problem.reason == Reason::ImageBuildFailed => {
            Finding::no(Reason::ImageBuildFailed, &problem.message)
        }
        (None, Phase::BuildingImage, _) => {
            let base = desired.base_image.as_deref().unwrap_or("nothing");
            Finding::no(Reason::BuildingImage, format!("the client's image is built on {base}"))
        }
        _ => Finding::unknown("not looked at yet"),
    }
}

pub(crate) fn link_up(desired: &Desired, state: &State) -> Finding {
    if let (None, Err(problem)) = (&state.client, &desired.network) {
        return Finding::no(problem.reason, &problem.message);
    }
    if let Some(why) = &state.halted {
        return Finding::no(Reason::Disconnected, why);
    }
    match &state.link {
        LinkState::Up => Finding::yes(Reason::Connected, "both ends talk to each other"),
        LinkState::Connecting { error: Some(error), attempt } if state.client.is_some() => {
            let message = format!("the link is being made: {error}");
            if QUIET_ATTEMPTS.contains(attempt) {
                Finding::unknown(message)
            } else {
                Finding::no(Reason::Disconnected, message)
            }
        }
        LinkState::Connecting { .. } => Finding::unknown("the link is being made"),
    }
}

pub(crate) fn tunnels_ready(input: &Input<'_>, tunnels: &[TunnelStatus]) -> Finding {
    if !input.failures.is_empty() {
        return Finding::no(Reason::ReconciliationFailed, input.failures.join("; "));
    }
    let ready = tunnels.iter().filter(|tunnel| tunnel.state == Some(TunnelState::Ready)).count();
    if ready == tunnels.len() {
        return Finding::yes(Reason::Ready, format!("{ready} of {ready} tunnels carry traffic"));
    }
    let summary = format!("{ready} of {} tunnels carry traffic", tunnels.len());
    let link = link_up(input.desired, input.state);
    if link.status != Status::True {
        // Said once, not of each of them.
        return Finding { message: format!("{summary}; {}", link.message), ..link };
    }
    let waiting = tunnels.iter().filter(|tunnel| tunnel.state != Some(TunnelState::Ready));
    let why = |tunnel: &TunnelStatus| tunnel.error_message.clone().unwrap_or_default();
    let said: Vec<_> = waiting.map(|tunnel| format!("{}: {}", tunnel.name, why(tunnel))).collect();
    let message = format!("{summary}; {}", said.join("; "));
    let is_begun = |wanted: &DesiredTunnel| is_under_way(wanted, input.state.tunnels.get(&wanted.spec.name));
    let is_ready = |wanted: &DesiredTunnel| {
        tunnels.iter().any(|one| one.name == wanted.spec.name && one.state == Some(TunnelState::Ready))
    };
    if input.desired.tunnels.iter().all(|wanted| is_ready(wanted) || is_begun(wanted)) {
        return Finding::unknown(message);
    }
    let problems = input.desired.tunnels.iter().filter_map(|wanted| wanted.problem.as_ref());
    let reason = problems.map(|problem| problem.reason).next().unwrap_or(Reason::NotReady);
    Finding::no(reason, message)
}

/// The summary: the first thing that keeps traffic from passing.
pub(crate) fn ready(input: &Input<'_>, tunnels: &[TunnelStatus]) -> Finding {
    let Input { desired, state, .. } = input;
    let link = link_up(desired, state);
    let runtime = runtime_available(state);
    let tunnels = tunnels_ready(input, tunnels);
    if link.status == Status::True && tunnels.status == Status::True {
        return Finding::yes(Reason::Ready, tunnels.message);
    }
    if link.status == Status::True {
        return Finding { status: Status::False, ..tunnels };
    }
    if let Err(problem) = &desired.network {
        return Finding::no(problem.reason, &problem.message);
    }
    if runtime.status == Status::False {
        return runtime;
    }
    if let Some(problem) = &state.problem {
        return Finding::no(problem.reason, &problem.message);
    }
    if link.status == Status::False {
        return link;
    }
    Finding { status: Status::False, ..Finding::unknown(progress(state)) }
}

fn progress(state: &State) -> &'static str {
    match state.phase {
        Phase::Looking | Phase::Waiting => "about to begin",
        Phase::BuildingImage => "the client's image is being built",
        Phase::Starting => "the client's container is being started",
        Phase::Linked => "the link is being made",
        Phase::Ending | Phase::Gone => "it ends",
    }
}
