//! What each condition of a tunnel proxy says.

use causeway_api::conditions::{Reason, Status};
use causeway_api::{TunnelState, TunnelStatus};

use super::Input;
use crate::containers::tunnel::desired::Desired;
use crate::containers::tunnel::host::protocol::LinkState;
use crate::containers::tunnel::state::{Phase, RuntimeState, State};
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
    match &state.link {
        LinkState::Up => Finding::yes(Reason::Connected, "both ends talk to each other"),
        LinkState::Connecting { error: Some(error), .. } if state.client.is_some() => {
            Finding::no(Reason::Disconnected, format!("the link is being made again: {error}"))
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
    let waiting = tunnels.iter().filter(|tunnel| tunnel.state != Some(TunnelState::Ready));
    let said: Vec<_> = waiting
        .filter_map(|tunnel| Some(format!("{}: {}", tunnel.name, tunnel.error_message.as_deref()?)))
        .collect();
    let summary = format!("{ready} of {} tunnels carry traffic", tunnels.len());
    if said.is_empty() {
        return Finding::unknown(summary);
    }
    let problems = input.desired.tunnels.iter().filter_map(|wanted| wanted.problem.as_ref());
    let reason = problems.map(|problem| problem.reason).next().unwrap_or(Reason::NotReady);
    Finding::no(reason, format!("{summary}; {}", said.join("; ")))
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
        return tunnels;
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
