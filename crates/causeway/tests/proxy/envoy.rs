//! `causeway proxy` with an Envoy beside it, which is a process of this machine.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::port;
use causeway_testkit::server::program;

use crate::peer::TlsBackend;
use crate::world::{PORT, World, backend};

/// Ended with the value.
struct Envoy(Child);

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of 127.0.0.1 that was free a moment ago.
#[test]
fn what_envoy_refuses_is_in_the_status_with_its_words_and_the_rest_runs_on() {
    let Some(envoy) = causeway_testkit::envoy::program() else { return };
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test", "two.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let (xds, admin) = (port::free().to_string(), port::free().to_string());
    let proxy = world.launch_with(&["--engine", "envoy", "--xds-port", &xds, "--admin-port", &admin]);
    let mut bootstrap = Command::new(program());
    bootstrap.args(["xds", "--print-bootstrap", "--node", "edge", "--listen", &format!("127.0.0.1:{xds}")]);
    let bootstrap = finish(bootstrap.args(["--admin", &format!("127.0.0.1:{admin}")])).ok();
    let config = world.root.path().join("bootstrap.json");
    std::fs::write(&config, bootstrap).unwrap();
    let envoy = Command::new(envoy)
        .arg("-c")
        .arg(&config)
        .args(["--use-dynamic-base-id", "--concurrency", "1", "-l", "error"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _envoy = Envoy(envoy.unwrap());
    proxy.wait_ready();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);
    assert_eq!(world.replica()["engine"], "Envoy");
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one");

    // Somebody else has the port, which nobody but Envoy finds out.
    let taken = TcpListener::bind((world.address, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut second = backend("two", "two.test");
    second["targetService"] = "one".into();
    second["port"] = port.into();
    world.proxy_server(&[backend("one", "one.test"), second.clone()]).ok();
    eventually("the refusal is told", PATIENCE, || world.replica()["refused"].is_string());
    let replica = world.replica();
    let refused = replica["refused"].as_str().unwrap();
    let address = format!("{}:{port}", world.address);
    for part in ["Envoy refuses listener edge-listener-", "cannot bind", &address] {
        assert!(refused.contains(part), "lacks {part}: {refused}");
    }
    assert_eq!(replica["serving"], false);
    assert_eq!(one.connect(world.at(PORT), "one.test").unwrap().word, "one", "the last good one runs on");

    second["port"] = PORT.into();
    world.proxy_server(&[backend("one", "one.test"), second]).ok();
    eventually("a change that it takes ends the refusal", PATIENCE, || {
        let replica = world.replica();
        replica["refused"].is_null() && replica["serving"] == true
    });
    assert_eq!(one.connect(world.at(PORT), "two.test").unwrap().word, "one");
}
