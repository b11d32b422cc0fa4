//! Edits take effect while connections stay.

use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::peer::{TlsBackend, get};
use crate::world::{NAMESPACE, PORT, World, backend};

#[test]
fn names_change_live_and_open_connections_stay() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test", "later.test"]);
    let two = TlsBackend::start("two", &["two.test"]);
    world.service("one", &one);
    world.service("two", &two);
    world.proxy_server(&[backend("one", "one.test"), backend("two", "two.test")]).ok();
    let _proxy = world.start();

    let mut open = one.connect(world.at(PORT), "one.test").unwrap();
    assert_eq!(open.word, "one");
    assert_eq!(two.connect(world.at(PORT), "TWO.test").unwrap().word, "two");
    let refused = one.connect(world.at(PORT), "later.test").err().unwrap();
    assert!(refused.contains("UnrecognisedName"), "{refused}");

    let mut changed = backend("one", "one.test");
    changed["alternateHostnames"] = serde_json::json!(["later.test"]);
    world.proxy_server(&[changed, backend("two", "two.test")]).ok();
    let since = Instant::now();
    eventually("the new name answers", PATIENCE, || one.connect(world.at(PORT), "later.test").is_ok());
    let took = since.elapsed();
    println!("the new name answered {took:?} after kubectl had ended");
    assert!(took < Duration::from_secs(5), "{took:?}");
    open.echo("still here").unwrap();

    // The second backend goes, the first one's open connection does not care.
    world.proxy_server(&[backend("one", "one.test")]).ok();
    eventually("the removed name is refused", PATIENCE, || two.connect(world.at(PORT), "two.test").is_err());
    open.echo("and still").unwrap();
}

#[test]
fn endpoints_are_followed_and_the_status_tells() {
    let world = World::new();
    let old = TlsBackend::start("old", &["one.test"]);
    let new = TlsBackend::start("new", &["one.test"]);
    world.service("one", &old);
    world.proxy_server(&[backend("one", "one.test"), backend("gone", "gone.test")]).ok();
    let _proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);
    let replica = world.replica();
    assert_eq!(replica["serving"], true, "{replica}");
    assert_eq!(replica["engine"], "Native");
    assert_eq!(replica["observedGeneration"], 1);
    assert_eq!(replica["listening"][0], world.at(PORT).to_string());
    assert_eq!(replica["readyBackends"], 1);
    let told = replica["backends"].as_array().unwrap();
    assert_eq!(told.len(), 1, "nothing is to be said of the other: {replica}");
    let missing = told[0]["message"].as_str().unwrap();
    assert!(missing.contains(&format!("there is no Service {NAMESPACE}/gone")), "{missing}");

    world.service("one", &new);
    eventually("new connections go to the new endpoint", PATIENCE, || {
        new.connect(world.at(PORT), "one.test").is_ok_and(|c| c.word == "new")
    });
    let (code, metrics) = get(world.at(9901), "/metrics").unwrap();
    assert_eq!(code, 200);
    assert!(metrics.contains("envoy_cluster_upstream_cx_total"), "{metrics}");
}

#[test]
fn an_address_of_the_isolated_network_is_waited_for_and_then_used() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let _proxy = world.start();
    let network = |address: &str| {
        let patch = serde_json::json!({"spec": {"networkConfig": {
            "serverIP": address, "networkAttachmentName": "vlan"}}});
        world.kubectl().ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &patch.to_string()]);
    };
    network("192.0.2.77/24");
    eventually("the proxy says that it is not attached", PATIENCE, || world.replica()["attached"] == false);
    assert_eq!(
        one.connect(world.at(PORT), "one.test").unwrap().word,
        "one",
        "the pod's address is listened on"
    );

    let mut other = world.at(PORT);
    other.set_ip("127.254.3.4".parse().unwrap());
    network("127.254.3.4/24");
    eventually("the new address answers", PATIENCE, || one.connect(other, "one.test").is_ok());
    eventually("the proxy says that it is attached", PATIENCE, || world.replica()["attached"] == true);
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");
}

#[test]
fn the_log_level_follows_the_object_without_a_restart() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let mut proxy = world.start();
    let level = || get(world.at(9901), "/logging").map(|(_, text)| text).unwrap_or_default();
    let ask = |level: &str| {
        let patch = serde_json::json!({"spec": {"logLevel": level}}).to_string();
        world.kubectl().ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &patch]);
    };
    assert!(level().contains("causeway=info"), "{}", level());
    let mut open = one.connect(world.at(PORT), "one.test").unwrap();
    ask("debug");
    eventually("the level is the new one", PATIENCE, || level().contains("causeway=debug"));
    ask("warning");
    eventually("and again", PATIENCE, || level().contains("causeway=warn"));
    open.echo("still here").unwrap();
    assert!(proxy.child.try_wait().unwrap().is_none());
}

#[test]
fn another_namespace_is_reached_without_a_grant_only_if_none_is_asked_for() {
    let world = World::new();
    let far = TlsBackend::start("far", &["far.test"]);
    World::service_in(&world.server.namespace("elsewhere"), "far", &far);
    let mut entry = backend("far", "far.test");
    entry["targetNamespace"] = "elsewhere".into();
    world.proxy_server(&[entry]).ok();
    let mut proxy = world.start();
    eventually("the proxy says what is missing", PATIENCE, || {
        let message = world.replica()["backends"][0]["message"].clone();
        message.as_str().is_some_and(|text| text.contains("create a ReferenceGrant in elsewhere"))
    });
    assert!(far.connect(world.at(PORT), "far.test").is_err());
    proxy.kill();

    let proxy = world.launch_with(&["--require-grants=false"]);
    proxy.wait_ready();
    eventually("the Service is reached", PATIENCE, || {
        far.connect(world.at(PORT), "far.test").is_ok_and(|client| client.word == "far")
    });
}
