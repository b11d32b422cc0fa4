//! States, conditions and tunnels as people see them.

use std::collections::BTreeMap;

use causeway_api::{ContainerNetworkTunnelProxySpec, Tunnel};
use causeway_ir::tunnel::LinkState;

use super::*;
use crate::containers::tunnel::state::{ClientState, HostState, RuntimeState};
use crate::containers::tunnel::{problem::Problem, validate::Network};

fn proxy() -> ContainerNetworkTunnelProxy {
    let mut proxy = ContainerNetworkTunnelProxy::new("lab", ContainerNetworkTunnelProxySpec::default());
    proxy.metadata.generation = Some(3);
    proxy
}

fn wanted(name: &str, problem: Option<Problem>) -> DesiredTunnel {
    DesiredTunnel {
        spec: Tunnel { name: name.into(), ..Tunnel::default() },
        allowed_sources: Vec::new(),
        usual_port: Some(80),
        endpoints: Vec::new(),
        client_port_name: None,
        problem,
    }
}

fn desired(tunnels: Vec<DesiredTunnel>) -> Desired {
    let network = Ok(Network { id: "n".into(), name: "blue".into() });
    Desired { network, aliases: Vec::new(), base_image: None, tunnels }
}

fn running(tunnels: &[(&str, carried::TunnelState)]) -> State {
    let carried = |(name, state): &(&str, carried::TunnelState)| {
        ((*name).to_owned(), CarriedTunnel { id: 5, state: state.clone() })
    };
    State {
        phase: Phase::Linked,
        runtime: RuntimeState::Available("Docker at /s".into()),
        image: Some("causeway-tunnel:1".into()),
        client: Some(ClientState {
            id: "c".into(),
            control_port: 40001,
            data_port: 40002,
            addresses: vec!["172.18.0.2".parse().unwrap()],
        }),
        host: Some(HostState { pid: 7, since: Timestamp::UNIX_EPOCH }),
        link: LinkState::Up,
        tunnels: tunnels.iter().map(carried).collect::<BTreeMap<_, _>>(),
        ..State::default()
    }
}

fn status_after(
    previous: &ContainerNetworkTunnelProxyStatus,
    desired: &Desired,
    state: &State,
    second: i64,
) -> ContainerNetworkTunnelProxyStatus {
    let input = Input {
        proxy: &proxy(),
        desired,
        state,
        failures: Vec::new(),
        journal: "/j".into(),
        output: "/o".into(),
    };
    next(previous, &input, Timestamp::from_second(second).unwrap())
}

fn status(desired: &Desired, state: &State) -> ContainerNetworkTunnelProxyStatus {
    status_after(&ContainerNetworkTunnelProxyStatus::default(), desired, state, 1)
}

fn condition(status: &ContainerNetworkTunnelProxyStatus, kind: ConditionType) -> (String, String, String) {
    let found = api::find(&status.conditions, kind).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

fn listening() -> carried::TunnelState {
    carried::TunnelState::Listening { port: 8080 }
}

#[test]
fn ready_when_the_link_is_up_and_every_tunnel_carries() {
    let desired = desired(vec![wanted("web", None), wanted("db", None)]);
    let status = status(&desired, &running(&[("web", listening()), ("db", listening())]));
    assert_eq!(status.state, Some(TunnelProxyState::Running));
    assert_eq!(condition(&status, ConditionType::Ready).0, "True");
    assert_eq!(status.message, None);
    assert_eq!(status.observed_generation, Some(3));
    let names: Vec<_> = status.tunnel_statuses.iter().map(|tunnel| tunnel.name.as_str()).collect();
    assert_eq!(names, ["db", "web"], "sorted by name");
    let web = &status.tunnel_statuses[1];
    assert_eq!((web.state, web.client_proxy_port), (Some(TunnelState::Ready), Some(8080)));
    assert_eq!(web.client_proxy_addresses, ["172.18.0.2"]);
    assert_eq!(status.client_proxy_address.as_deref(), Some("172.18.0.2"));
    assert_eq!(status.client_proxy_ports.as_deref(), Some("8080,8080"));
}

#[test]
fn one_bad_tunnel_leaves_the_others_and_says_why() {
    let problem =
        Problem { reason: Reason::Conflict, message: "it has a selector".into(), is_permanent: true };
    let desired = desired(vec![wanted("web", None), wanted("db", Some(problem))]);
    let status = status(&desired, &running(&[("web", listening())]));
    assert_eq!(status.state, Some(TunnelProxyState::Running), "the pair itself is fine");
    let states: Vec<_> = status.tunnel_statuses.iter().map(|tunnel| tunnel.state).collect();
    assert_eq!(states, [Some(TunnelState::Failed), Some(TunnelState::Ready)]);
    let (ready, reason, message) = condition(&status, ConditionType::Ready);
    assert_eq!((ready.as_str(), reason.as_str()), ("False", "Conflict"));
    assert_eq!(message, "1 of 2 tunnels carry traffic; db: it has a selector");
}

#[test]
fn the_state_follows_the_pair() {
    let desired = desired(vec![wanted("web", None)]);
    let problem = |is_permanent| Some(Problem { is_permanent, ..Problem::not_ready("no") });
    let down = LinkState::Connecting { attempt: 9, error: Some("refused".into()) };
    for (state, expected) in [
        (State::default(), TunnelProxyState::Pending),
        (State { phase: Phase::BuildingImage, ..State::default() }, TunnelProxyState::BuildingImage),
        (
            State { phase: Phase::Starting, problem: problem(false), ..State::default() },
            TunnelProxyState::Starting,
        ),
        (
            State { phase: Phase::Starting, problem: problem(true), ..State::default() },
            TunnelProxyState::Failed,
        ),
        (State { link: down, ..running(&[]) }, TunnelProxyState::Starting),
        (running(&[]), TunnelProxyState::Running),
    ] {
        assert_eq!(status(&desired, &state).state, Some(expected), "{state:?}");
    }
}

#[test]
fn a_runtime_that_is_away_is_said_and_harms_no_link_that_is_up() {
    let desired = desired(vec![wanted("web", None)]);
    let away = RuntimeState::Unavailable("nobody listens".into());
    let up = status(&desired, &State { runtime: away.clone(), ..running(&[("web", listening())]) });
    assert_eq!(condition(&up, ConditionType::RuntimeAvailable).0, "False");
    assert_eq!(condition(&up, ConditionType::Ready).0, "True", "traffic passes");
    let down = status(&desired, &State { runtime: away, ..State::default() });
    assert_eq!(down.message.as_deref(), Some("nobody listens"));
    assert_eq!(condition(&down, ConditionType::Ready).1, "RuntimeUnavailable");
}

#[test]
fn times_move_with_states_and_the_version_with_tunnels() {
    let desired = desired(vec![wanted("web", None)]);
    let state = running(&[("web", listening())]);
    let first = status(&desired, &state);
    assert_eq!(first.tunnel_configuration_version, Some(1));
    let second = status_after(&first, &desired, &state, 9);
    assert_eq!(second, first, "nothing has changed but the time");
    let third = status_after(
        &second,
        &desired,
        &running(&[("web", carried::TunnelState::NoEndpoints { port: 8080 })]),
        10,
    );
    assert_ne!(third.tunnel_statuses[0].timestamp, first.tunnel_statuses[0].timestamp);
    assert_eq!(third.tunnel_configuration_version, Some(2));
    assert!(third.tunnel_statuses[0].client_proxy_addresses.is_empty());
    assert_eq!(third.tunnel_statuses[0].client_proxy_port, Some(8080), "it keeps its port");
    let notes = notes(&second, &third);
    assert!(notes.iter().any(|note| note.reason == "TunnelNotReady"), "{notes:?}");
}

#[test]
fn a_tunnel_that_carries_has_no_error_and_one_that_does_not_always_has_a_reason() {
    let desired = desired(vec![wanted("web", None)]);
    let starting = State { phase: Phase::Starting, ..State::default() };
    let down = LinkState::Connecting { attempt: 3, error: Some("refused".into()) };
    let waiting = [
        State::default(),
        starting,
        State { link: down, ..running(&[("web", listening())]) },
        State { halted: Some("it is paused".into()), ..running(&[("web", listening())]) },
        running(&[]),
        running(&[("web", carried::TunnelState::Pending)]),
        running(&[("web", carried::TunnelState::NoEndpoints { port: 1 })]),
        running(&[("web", carried::TunnelState::Unreachable { port: 1, error: "refused".into() })]),
    ];
    let mut previous = ContainerNetworkTunnelProxyStatus::default();
    for state in waiting {
        previous = status_after(&previous, &desired, &state, 1);
        let tunnel = &previous.tunnel_statuses[0];
        assert_eq!(tunnel.state, Some(TunnelState::NotReady), "{state:?}");
        assert!(tunnel.error_message.as_ref().is_some_and(|why| !why.is_empty()), "{state:?}");
        assert!(previous.message.as_ref().is_some_and(|why| !why.is_empty()), "{state:?}");
        assert_eq!(condition(&previous, ConditionType::Ready).0, "False", "{state:?}");
    }
    let ready = status_after(&previous, &desired, &running(&[("web", listening())]), 2);
    assert_eq!((ready.tunnel_statuses[0].error_message.as_deref(), ready.message), (None, None));
}

#[test]
fn a_container_that_is_paused_is_ready_in_nothing_and_says_what_to_do() {
    let desired = desired(vec![wanted("web", None)]);
    let before = status(&desired, &running(&[("web", listening())]));
    let halted =
        State { halted: Some("it is paused: unpause it".into()), ..running(&[("web", listening())]) };
    let status = status_after(&before, &desired, &halted, 2);
    assert_ne!(status.state, Some(TunnelProxyState::Running));
    for kind in [ConditionType::Ready, ConditionType::LinkUp, ConditionType::TunnelsReady] {
        let (is, reason, message) = condition(&status, kind);
        assert_eq!((is.as_str(), reason.as_str()), ("False", "Disconnected"), "{kind}");
        assert!(message.contains("it is paused: unpause it"), "{kind}: {message}");
    }
    let told: Vec<_> = notes(&before, &status).into_iter().map(|note| note.reason).collect();
    assert_eq!(told, ["LinkUpLost", "ReadyLost"], "the tunnels go with the link");
}
