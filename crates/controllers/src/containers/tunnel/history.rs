//! What there is to tell of a change of state, for the journal. Pure.

use std::collections::BTreeMap;

use causeway_ir::tunnel::{LinkState, TunnelState};

use super::state::{CarriedTunnel, Phase, QUIET_ATTEMPTS, RuntimeState, State};

/// Lines about everything that differs.
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
    if let (true, Some(why)) = (before.halted != now.halted, &now.halted) {
        lines.push(why.clone());
    }
    if before.link != now.link && now.client.is_some() {
        lines.extend(link(&before.link, &now.link));
    }
    lines.extend(tunnels(&before.tunnels, &now.tunnels));
    lines
}

fn link(before: &LinkState, now: &LinkState) -> Option<String> {
    match now {
        LinkState::Up => Some("the link is up".to_owned()),
        LinkState::Connecting { error: None, .. } => Some("the link is being made".to_owned()),
        LinkState::Connecting { attempt, .. }
            if *before != LinkState::Up && QUIET_ATTEMPTS.contains(attempt) =>
        {
            None
        }
        LinkState::Connecting { error: Some(error), .. } => Some(format!("the link is down: {error}")),
    }
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
                    format!("refuses on port {port}: there is nothing to lead to")
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
    use crate::containers::tunnel::state::ClientState;

    fn carrying(port: u16) -> State {
        let tunnel = CarriedTunnel { id: 1, state: TunnelState::Listening { port } };
        State { tunnels: BTreeMap::from([("web".to_owned(), tunnel)]), ..State::default() }
    }

    #[test]
    fn a_tunnel_says_where_it_carries() {
        assert_eq!(of(&State::default(), &carrying(80)), ["tunnel web carries what comes to port 80"]);
        assert_eq!(of(&carrying(80), &carrying(81)), ["tunnel web carries what comes to port 81"]);
    }

    #[test]
    fn the_first_attempts_to_reach_a_client_are_no_story() {
        let client = ClientState { id: "c".into(), control_port: 1, data_port: 2, addresses: vec![] };
        let at = |link| State { client: Some(client.clone()), link, ..State::default() };
        let tried = |attempt| at(LinkState::Connecting { attempt, error: Some("tls handshake eof".into()) });
        assert_eq!(of(&tried(1), &tried(2)), Vec::<String>::new());
        assert_eq!(of(&at(LinkState::Up), &tried(1)), ["the link is down: tls handshake eof"], "it was up");
        assert_eq!(of(&tried(5), &tried(6)), ["the link is down: tls handshake eof"], "it takes too long");
    }

    #[test]
    fn a_runtime_that_goes_away_is_named() {
        let gone = State { runtime: RuntimeState::Unavailable("nobody listens".into()), ..State::default() };
        assert_eq!(of(&State::default(), &gone), ["no container runtime: nobody listens"]);
    }
}
