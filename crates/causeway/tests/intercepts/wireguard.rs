//! A peer of WireGuard that nobody here wrote comes in with what the Workstation's status says.

use std::time::Instant;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::load::ask;
use crate::peer::{Machine, is_missing};
use crate::world::{FALLBACK, World};

#[test]
fn a_peer_that_nobody_here_wrote_comes_in_and_is_reached() {
    if is_missing() {
        return;
    }
    let world = World::start();
    let web = world.address("web");
    let mut machine = Machine::new("wgl");
    let status = machine.register(&world.kubectl, PATIENCE);
    machine.join(&status, PATIENCE);
    // Out: a page of a Service.
    machine.fetches(&web, "web", PATIENCE);
    // In: what others ask the Service with its name.
    machine.intercept(&world.kubectl, &status);
    world.says("me", "Ready", "Ready");
    eventually("it is reached", PATIENCE, || ask(&web, &["x-user: peer"]).is_ok_and(|by| by == "peer"));
    assert_eq!(ask(&web, &[]).unwrap(), "web");
    // Gone without a word.
    let gone = Instant::now();
    drop(machine);
    eventually("the original answers for it", PATIENCE, || {
        ask(&web, &["x-user: peer"]).is_ok_and(|by| by == "web")
    });
    assert!(gone.elapsed() < FALLBACK, "after {:?}", gone.elapsed());
}
