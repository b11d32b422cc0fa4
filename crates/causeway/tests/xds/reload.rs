//! Plans that change while Envoy runs, plans that it refuses, and a control plane that goes away.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::envoy;

use crate::backend::{Held, backend, free_port, hello, who};
use crate::control_plane::ControlPlane;

fn plan(bind: &str, name: &str, endpoint: std::net::SocketAddr, more: &str) -> String {
    format!(
        "
listeners:
- name: tls
  bind: {bind}
  protocol: {{tls: {{routes: [{{name: a, serverNames: [{name}], action: {{forward: a}}}}]}}}}
{more}
clusters: [{{name: a, endpoints: [{{address: '{endpoint}'}}]}}]
"
    )
}

fn answers(port: u16, name: &str, who_answers: &str) {
    eventually(&format!("{name} is answered by {who_answers}"), PATIENCE, || {
        who(port, &hello(Some(name))) == who_answers
    });
}

fn a_change_is_applied(delta: bool) {
    let Some(program) = envoy::program() else { return };
    let port = free_port();
    let bind = format!("127.0.0.1:{port}");
    let (a, b) = (backend("a"), backend("b"));
    let control_plane = ControlPlane::start(&plan(&bind, "a.test", a, ""));
    let _envoy = control_plane.envoy(&program, "edge", delta);
    answers(port, "a.test", "a");
    let mut held = Held::open(port, "a.test");

    control_plane.write(&plan(&bind, "a.test", b, ""));
    answers(port, "a.test", "b");
    assert!(held.works(), "a connection outlives its endpoint's place in the plan");

    control_plane
        .write(&plan(&bind, "'a.test, new.test'", b, "").replace("'a.test, new.test'", "a.test, new.test"));
    answers(port, "new.test", "b");
    assert!(held.works(), "a connection outlives a change of its route's names");
}

#[test]
fn a_change_is_applied_by_delta_and_connections_stay() {
    a_change_is_applied(true);
}

#[test]
fn a_change_is_applied_by_state_of_the_world_and_connections_stay() {
    a_change_is_applied(false);
}

fn a_refusal(delta: bool) {
    let Some(program) = envoy::program() else { return };
    let port = free_port();
    let bind = format!("127.0.0.1:{port}");
    let a = backend("a");
    let control_plane = ControlPlane::start(&plan(&bind, "a.test", a, ""));
    let envoy = control_plane.envoy(&program, "edge", delta);
    answers(port, "a.test", "a");
    // No host has this address, which our validation can't know.
    let bad = "- {name: elsewhere, bind: '192.0.2.1:1', protocol: {tcp: {name: all, action: {forward: a}}}}";
    control_plane.write(&plan(&bind, "a.test", a, bad));
    control_plane.says("refused listener elsewhere: ");
    assert!(control_plane.log().contains("192.0.2.1:1"), "Envoy's own words: {}", control_plane.log());
    answers(port, "a.test", "a");
    let tries = envoy.page("/stats?filter=lds.update_rejected");
    assert!(tries.contains(": 1"), "it is not sent again and again: {tries}");

    control_plane.write(&plan(&bind, "b.test", a, ""));
    answers(port, "b.test", "a");
    eventually("the refusal is forgotten", PATIENCE, || {
        control_plane
            .log()
            .lines()
            .rev()
            .find(|line| line.starts_with("edge ("))
            .is_some_and(|line| line.ends_with("up to date"))
    });
}

#[test]
fn what_envoy_refuses_is_told_in_its_words_by_delta() {
    a_refusal(true);
}

#[test]
fn what_envoy_refuses_is_told_in_its_words_by_state_of_the_world() {
    a_refusal(false);
}

#[test]
fn envoy_goes_on_without_the_control_plane_and_comes_back_to_it() {
    let Some(program) = envoy::program() else { return };
    let port = free_port();
    let bind = format!("127.0.0.1:{port}");
    let (a, b) = (backend("a"), backend("b"));
    let mut control_plane = ControlPlane::start(&plan(&bind, "a.test", a, ""));
    let envoy = control_plane.envoy(&program, "edge", true);
    answers(port, "a.test", "a");
    let mut held = Held::open(port, "a.test");
    control_plane.kill();
    envoy.shows("/stats?filter=control_plane.connected_state", "control_plane.connected_state: 0");
    assert_eq!(who(port, &hello(Some("a.test"))), "a");
    control_plane.restart();
    control_plane.says("up to date");
    assert!(held.works());
    let stats = envoy.page("/stats?filter=listener_manager.listener_(added|modified|removed)");
    assert!(stats.contains("listener_added: 1"), "the listener was left alone: {stats}");
    assert!(stats.contains("listener_modified: 0") && stats.contains("listener_removed: 0"), "{stats}");
    let plan = plan(&bind, "a.test", b, "");
    control_plane.write(&plan);
    answers(port, "a.test", "b");
    assert!(held.works());
}
