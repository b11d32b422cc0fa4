//! `kubectl edit proxyserver` while requests run: none of them fails, and the new name answers within a second. The
//! whole product takes part: API server, operator, node, and either engine.

#![allow(clippy::unwrap_used, clippy::panic)]

mod load;
mod manifests;
mod pod_network;
mod refused;
mod roll;
mod tls;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::Server;

use load::Load;
use tls::{Authority, Client};

/// What the documentation promises from the end of an edit to the first answer.
const LIVE: Duration = Duration::from_secs(1);

#[test]
fn an_edit_under_load_fails_no_request_with_the_native_engine() {
    edit_under_load("Native", "127.78.0.10:8443", &[]);
}

#[test]
fn an_edit_under_load_fails_no_request_with_envoy() {
    if let Some(envoy) = causeway_testkit::envoy::program() {
        let program = format!("envoyproxy/envoy={}", envoy.display());
        edit_under_load("Envoy", "127.78.0.11:8444", &["--program", &program]);
    }
}

#[test]
fn replicas_with_envoy_and_other_proxies_share_a_machine() {
    let Some(envoy) = causeway_testkit::envoy::program() else { return };
    let program = format!("envoyproxy/envoy={}", envoy.display());
    let server = Server::start(&["--program", &program]);
    let kubectl = server.kubectl();
    kubectl.trust();
    let authority = Authority::new();
    kubectl.apply(&manifests::services(&authority)).ok();
    let addresses: [SocketAddr; 3] =
        ["127.78.0.12:8445", "127.78.0.13:8445", "127.78.0.14:8445"].map(|address| address.parse().unwrap());
    let edge = manifests::proxy("Envoy", addresses[0]).replace(
        "{serverIP: 127.78.0.12}",
        "{serverIP: 127.78.0.12, additionalServerIPs: [127.78.0.13]}\n  replicas: 2",
    );
    kubectl.apply(&edge).ok();
    let other = manifests::proxy("Envoy", addresses[2]).replace("{name: edge}", "{name: other}");
    kubectl.apply(&other).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "proxyserver/other", "--timeout=90s"]);
    for address in addresses {
        assert_eq!(Client::new(address, &authority).ask("old.example.test").unwrap(), "one", "{address}");
    }
    let pods =
        kubectl.ok(&["get", "pods", "-l", "app=proxy-server", "-o", "jsonpath={.items[*].status.podIP}"]);
    assert_eq!(pods.split_whitespace().count(), 3, "{pods}");
    for pod in pods.split_whitespace() {
        let admin = format!("http://{pod}:9901/clusters");
        let shown =
            causeway_testkit::kubectl::finish(std::process::Command::new("curl").args(["-sf", &admin])).ok();
        assert!(shown.contains("xds_cluster::"), "{shown}");
    }
}

fn edit_under_load(engine: &str, address: &str, up: &[&str]) {
    let address: SocketAddr = address.parse().unwrap();
    let server = Server::start(up);
    let kubectl = server.kubectl();
    if engine == "Envoy" {
        kubectl.trust();
    }
    let authority = Authority::new();
    kubectl.apply(&manifests::services(&authority)).ok();
    kubectl.apply(&manifests::proxy(engine, address)).ok();
    let waited = kubectl.run(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
    assert!(
        waited.code == Some(0),
        "{waited}\n{}\n{}",
        kubectl.run(&["get", "proxyserver/edge", "-o", "yaml"]),
        kubectl.run(&["get", "pods,events", "-o", "wide"])
    );

    let client = Client::new(address, &authority);
    assert_eq!(client.ask("old.example.test").unwrap(), "one");
    assert!(client.ask("new.example.test").is_err(), "nobody serves the new name yet");

    let load = Load::start(&client, "old.example.test", 4);
    eventually("the load runs", PATIENCE, || load.answered() > 50);
    edit(&server, "s/moved.example.test/new.example.test/");
    let edited = Instant::now();
    while client.ask("new.example.test").ok().as_deref() != Some("two") {
        assert!(edited.elapsed() < PATIENCE, "the new name never answered");
    }
    let live = edited.elapsed();
    let so_far = load.answered();
    eventually("the load goes on after the edit", PATIENCE, || load.answered() > so_far + 50);
    // Renamed again and back a few times: every one of these swaps the plan under the load.
    for round in 0..3 {
        edit(&server, &format!("s/timeoutSeconds: .*/timeoutSeconds: {}/", 10 + round));
    }
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered} requests failed: {}", failures.len(), failures[0]);
    assert!(live < LIVE, "the new name took {live:?}");
    assert!(client.ask("moved.example.test").is_err(), "the name that was edited away is refused");

    let mut open = client.open("old.example.test");
    open.echo(b"before");
    kubectl.ok(&["delete", "proxyserver/edge", "--wait=false"]);
    let pods = || kubectl.ok(&["get", "pods", "-l", "app=proxy-server", "-o", "name"]);
    let told = "jsonpath={.items[*].metadata.deletionTimestamp}";
    eventually("its pod is told to end", PATIENCE, || {
        !kubectl.ok(&["get", "pods", "-l", "app=proxy-server", "-o", told]).is_empty()
    });
    eventually("nobody new is let in", PATIENCE, || client.ask("old.example.test").is_err());
    open.echo(b"an open connection may end in peace");
    drop(open);
    eventually("its pods are gone", PATIENCE, || pods().is_empty());
}

/// `kubectl edit` with a person's keystrokes: a sed program.
fn edit(server: &Server, keystrokes: &str) {
    let editor = server.data_dir().join("editor");
    std::fs::write(&editor, format!("#!/bin/sh\nexec sed -i '{keystrokes}' \"$1\"\n")).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let kubectl = server.kubectl();
    let ran = causeway_testkit::kubectl::finish(
        kubectl.command(&["edit", "proxyserver/edge"]).env("KUBE_EDITOR", &editor),
    );
    assert!(ran.code == Some(0), "{ran}");
}
