//! Bad specs, a lost API server, and the end of a proxy.

use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::peer::{TlsBackend, get};
use crate::world::{PORT, World, backend};

#[test]
fn a_bad_spec_is_refused_and_the_last_good_one_runs_on() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let _proxy = world.start();
    world.proxy_server(&[backend("one", "one.test"), backend("copy", "one.test")]).ok();
    eventually("the proxy says that it refuses", PATIENCE, || world.replica()["refused"].is_string());
    let replica = world.replica();
    let refused = replica["refused"].as_str().unwrap();
    assert!(refused.contains("spec.backends[1].hostname") && refused.contains("backend `one`"), "{refused}");
    assert_eq!((&replica["serving"], &replica["runningGeneration"]), (&false.into(), &1.into()));
    let (_, metrics) = get(world.at(9901), "/metrics").unwrap();
    assert!(metrics.contains("causeway_plans_refused_total 1"), "{metrics}");
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");
    assert_eq!(get(world.at(8080), "/ready").unwrap().0, 200, "what it carries is carried");
    let doctor = world.causeway(&["doctor", "proxy/edge", "-n", "crossing"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.stdout.contains("✗ the spec is not valid: spec.backends[1].hostname"), "{doctor}");

    world.proxy_server(&[backend("one", "one.test")]).ok();
    eventually("the mended spec is taken", PATIENCE, || world.replica()["serving"] == true);
}

#[test]
fn a_refused_spec_and_a_crash_leave_the_last_good_one_serving() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let mut proxy = world.start();
    eventually("the proxy serves", PATIENCE, || world.replica()["serving"] == true);
    world.proxy_server(&[backend("one", "one.test"), backend("copy", "one.test")]).ok();
    eventually("the proxy says that it refuses", PATIENCE, || world.replica()["refused"].is_string());

    proxy.kill();
    assert!(one.connect(world.at(PORT), "one.test").is_err(), "nothing serves while there is no process");
    let mut proxy = world.start();
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");
    assert!(proxy.log().contains("going on with the last good state"), "{}", proxy.log());
    assert!(world.replica()["refused"].is_string(), "{}", world.replica());
    // Once more, since the second process has to keep the good state and not the refused one.
    proxy.kill();
    let _proxy = world.start();
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");

    world.proxy_server(&[backend("one", "one.test")]).ok();
    eventually("the mended spec is taken", PATIENCE, || world.replica()["serving"] == true);
}

#[test]
fn traffic_goes_on_without_the_api_server_and_after_a_restart_without_it() {
    let mut world = World::new();
    let one = TlsBackend::start("one", &["one.test", "later.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let mut proxy = world.start();
    let mut open = one.connect(world.at(PORT), "one.test").unwrap();
    world.server.kill();
    open.echo("without").unwrap();
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");

    proxy.kill();
    let proxy = world.start();
    assert!(proxy.log().contains("going on with the last good state"), "{}", proxy.log());
    let mut open = one.connect(world.at(PORT), "one.test").unwrap();

    // The control plane comes back, and the proxy follows it again by itself.
    let _revived = world.revive();
    world.proxy_server(&[backend("one", "later.test")]).ok();
    eventually("the edit is live", PATIENCE, || one.connect(world.at(PORT), "later.test").is_ok());
    open.echo("the connection does not care").unwrap();
    eventually("the status is written again", PATIENCE, || world.replica()["observedGeneration"] == 2);
}

#[test]
fn a_deleted_object_leaves_its_last_state_running() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let proxy = world.start();
    world.kubectl().ok(&["delete", "proxyserver", "edge", "--wait=false"]);
    eventually("the proxy says that it was deleted", PATIENCE, || proxy.log().contains("was deleted"));
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");
}

#[test]
fn a_terminated_proxy_lets_connections_end() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let mut proxy = world.start();
    let mut open = one.connect(world.at(PORT), "one.test").unwrap();
    proxy.terminate();
    eventually("it is no longer ready", PATIENCE, || !matches!(get(world.at(8080), "/ready"), Ok((200, _))));
    let late = one.connect(world.at(PORT), "one.test");
    assert_eq!(late.unwrap().word, "one", "who has not heard of it yet is still let in");
    eventually("new connections are refused", PATIENCE, || one.connect(world.at(PORT), "one.test").is_err());
    open.echo("let me finish").unwrap();
    assert!(proxy.child.try_wait().unwrap().is_none(), "it waits for the connection");
    drop(open);
    assert_eq!(proxy.wait_end(Duration::from_secs(15)), 0);
}

#[test]
fn a_port_that_somebody_else_has_is_told_and_taken_once_it_is_free() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    let somebody = std::net::TcpListener::bind(world.at(PORT)).unwrap();
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let proxy = world.launch();
    eventually("the proxy says what is in its way", PATIENCE, || {
        let replica = world.replica();
        let trouble = replica["trouble"].as_str().unwrap_or_default().to_owned();
        replica["serving"] == false && trouble.contains("another process listens there")
    });
    assert_eq!(get(world.at(8080), "/ready").unwrap().0, 503);
    drop(somebody);
    proxy.wait_ready();
    eventually("the proxy serves", PATIENCE, || world.replica()["serving"] == true);
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");

    // An edit for a port that can't be had costs nothing of what is carried.
    let _somebody = std::net::TcpListener::bind(world.at(PORT + 1)).unwrap();
    let mut two = backend("two", "two.test");
    (two["targetService"], two["port"]) = ("one".into(), (PORT + 1).into());
    world.proxy_server(&[backend("one", "one.test"), two]).ok();
    eventually("the proxy says what is in its way", PATIENCE, || world.replica()["trouble"].is_string());
    assert_eq!(get(world.at(8080), "/ready").unwrap().0, 200, "or its Service would lose it");
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");
}
