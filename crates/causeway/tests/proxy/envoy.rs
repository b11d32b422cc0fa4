//! `causeway proxy` with an Envoy beside it, which is a process of this machine.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::port;
use causeway_testkit::server::program;

use serde_json::{Value, json};

use crate::peer::{TlsBackend, get};
use crate::world::{PORT, Proxy, World, backend};

/// A proxy and the Envoy beside it, which ends with the value.
pub struct WithEnvoy {
    pub proxy: Proxy,
    envoy: Child,
    pub admin: SocketAddr,
}

impl WithEnvoy {
    /// Starts both and waits until they are ready; `None` where there is no Envoy.
    pub fn start(world: &World) -> Option<Self> {
        let envoy = causeway_testkit::envoy::program()?;
        let (xds, admin) = (port::free().to_string(), port::free());
        let proxy =
            world.launch_with(&["--engine", "envoy", "--xds-port", &xds, "--admin-port", &admin.to_string()]);
        let admin = SocketAddr::from(([127, 0, 0, 1], admin));
        let mut bootstrap = Command::new(program());
        bootstrap.args(["xds", "--print-bootstrap", "--node", "edge"]);
        bootstrap.args(["--listen", &format!("127.0.0.1:{xds}"), "--admin", &admin.to_string()]);
        let config = world.root.path().join("bootstrap.json");
        std::fs::write(&config, finish(&mut bootstrap).ok()).unwrap();
        let envoy = Command::new(envoy)
            .arg("-c")
            .arg(&config)
            .args(["--use-dynamic-base-id", "--concurrency", "1", "-l", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let both = Self { proxy, envoy, admin };
        both.proxy.wait_ready();
        Some(both)
    }

    pub fn stop_envoy(&mut self) {
        let _ = self.envoy.kill();
        let _ = self.envoy.wait();
    }
}

impl Drop for WithEnvoy {
    fn drop(&mut self) {
        self.stop_envoy();
    }
}

#[test]
fn what_envoy_refuses_is_in_the_status_with_its_words_and_the_rest_runs_on() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test", "two.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let Some(mut both) = WithEnvoy::start(&world) else { return };
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

    both.stop_envoy();
    eventually("the proxy says that Envoy is gone", PATIENCE, || {
        let replica = world.replica();
        let trouble = replica["trouble"].as_str().unwrap_or_default().to_owned();
        replica["serving"] == false && trouble.contains("no Envoy is connected")
    });
    assert_eq!(get(world.at(8080), "/ready").unwrap().0, 503);
}

#[test]
fn limit_and_log_level_reach_an_envoy_that_runs() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let Some(both) = WithEnvoy::start(&world) else { return };
    let ask = |path: &str| get(both.admin, path).map(|(_, text)| text).unwrap_or_default();
    let patch = |spec: Value| {
        let patch = json!({"spec": spec}).to_string();
        world.kubectl().ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &patch]);
    };
    let limit = "overload.global_downstream_max_connections";
    assert!(!ask("/runtime").contains(limit));
    patch(json!({"connectionLimit": 4}));
    eventually("the limit is there", PATIENCE, || ask("/runtime").contains(limit));
    // Envoy counts those who ask its admin interface, too.
    let held: Vec<_> = (0..5).map(|_| one.connect(world.at(PORT), "one.test")).collect();
    assert!(held.iter().any(Result::is_err), "five at a time");
    drop(held);
    patch(json!({"connectionLimit": null, "logLevel": "trace"}));
    eventually("the limit is gone", PATIENCE, || !ask("/runtime").contains(limit));
    eventually("the level is there", PATIENCE, || {
        let levels = post(both.admin, "/logging");
        levels.lines().any(|line| line.trim() == "upstream: trace")
    });
}

/// Envoy shows levels only to those who could change them.
fn post(at: SocketAddr, path: &str) -> String {
    let url = format!("http://{at}{path}");
    finish(Command::new("curl").args(["-s", "-X", "POST", &url])).stdout
}
