//! What there is to tell of a change of state, for the journal. Pure.

use std::collections::BTreeMap;

use super::host::protocol::{LinkState, TunnelState};
use super::state::{CarriedTunnel, Phase, RuntimeState, State};

/// Lines about everything that differs but for the figures.
pub(crate) fn of(before: &State, now: &State) -> Vec<String> {
    let mut lines = Vec::new();
    if before.runtime != now.runtime {
        match &now.runtime {
            RuntimeState::Unknown => {}
            RuntimeState::Unavailable(why) => lines.push(format!("no container runtime: {why}")),
            RuntimeState::Available(which) => lines.push(format!("container runtime: {which}")),
        }
    }
    if before.phase != now.phase {
        lines.extend(phase(now));
    }
    if let (true, Some(problem)) = (before.problem != now.problem, &now.problem) {
        let word = if problem.is_permanent { "failed" } else { "trouble, trying again" };
        lines.push(format!("{word}: {}", problem.message));
    }
    if before.link != now.link && now.client.is_some() {
        lines.push(match &now.link {
            LinkState::Up => "the link is up".to_owned(),
            LinkState::Connecting { attempt: 0, .. } => "the link is being made".to_owned(),
            LinkState::Connecting { error, .. } => {
                format!("the link is down: {}", error.as_deref().unwrap_or("connecting"))
            }
        });
    }
    lines.extend(tunnels(&before.tunnels, &now.tunnels));
    lines
}

fn phase(now: &State) -> Option<String> {
    match now.phase {
        Phase::Looking => None,
        Phase::Waiting => Some("waiting for the network and a container runtime".to_owned()),
        Phase::BuildingImage => Some("looking for the client's image".to_owned()),
        Phase::Starting => {
            Some(format!("starting the client of image {}", now.image.as_deref().unwrap_or("?")))
        }
        Phase::Linked => now.client.as_ref().map(|client| {
            let addresses: Vec<_> = client.addresses.iter().map(ToString::to_string).collect();
            format!(
                "the client is at {}, for the host at 127.0.0.1:{} and 127.0.0.1:{}",
                addresses.join(", "),
                client.control_port,
                client.data_port
            )
        }),
        Phase::Ending => Some("ending".to_owned()),
        Phase::Gone => Some("ended".to_owned()),
    }
}

fn tunnels(before: &BTreeMap<String, CarriedTunnel>, now: &BTreeMap<String, CarriedTunnel>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, tunnel) in now {
        if before.get(name).map(|known| &known.state) != Some(&tunnel.state) {
            let says = match &tunnel.state {
                TunnelState::Pending => continue,
                TunnelState::Listening { port } => format!("carries what comes to port {port}"),
                TunnelState::Unreachable { port, error } => format!("refuses on port {port}: {error}"),
                TunnelState::NoEndpoints { port } => {
                    format!("refuses on port {port}: the server is not ready")
                }
                TunnelState::Failed { error } => format!("failed: {error}"),
            };
            lines.push(format!("tunnel {name} {says}"));
        }
    }
    // A link that ends takes all of them along, which needs no words.
    if !now.is_empty() {
        let removed = before.keys().filter(|name| !now.contains_key(*name));
        lines.extend(removed.map(|name| format!("tunnel {name} is closed")));
    }
    lines
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::containers::tunnel::host::protocol::Counters;

    fn carrying(port: u16, streams: u64) -> State {
        let counters = Counters { streams, ..Counters::default() };
        let tunnel = CarriedTunnel { id: 1, state: TunnelState::Listening { port }, counters };
        State { tunnels: BTreeMap::from([("web".to_owned(), tunnel)]), ..State::default() }
    }

    #[test]
    fn figures_alone_are_no_story() {
        assert_eq!(of(&carrying(80, 1), &carrying(80, 2)), Vec::<String>::new());
        assert_eq!(of(&State::default(), &carrying(80, 0)), ["tunnel web carries what comes to port 80"]);
        assert_eq!(of(&carrying(80, 0), &carrying(81, 0)), ["tunnel web carries what comes to port 81"]);
    }

    #[test]
    fn a_runtime_that_goes_away_is_named() {
        let gone = State { runtime: RuntimeState::Unavailable("nobody listens".into()), ..State::default() };
        assert_eq!(of(&State::default(), &gone), ["no container runtime: nobody listens"]);
    }
}
