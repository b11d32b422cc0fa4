//! `causeway logs` without a runtime: followed to the end of the object, and what it does where there are no logs.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{Server, program};

use crate::world::proxy;

fn logs(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["logs", "cntp/to-host"]).args(args).env("KUBECONFIG", server.kubeconfig());
    command
}

#[test]
fn a_log_is_followed_to_the_end_of_its_object() {
    let server = Server::start(&["--container-runtime", "/nowhere/docker.sock"]);
    server.kubectl().apply(&proxy("to-host", "nowhere", "", &[])).ok();
    let mut child = logs(&server, &["--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = move || lines.next().map(|line| line.unwrap());
    while !next().expect("the log goes on").contains("ContainerNetwork default/nowhere does not exist") {}
    server.kubectl().ok(&["delete", "cntp/to-host", "--timeout=60s"]);
    let mut last = String::new();
    while let Some(line) = next() {
        last = line;
    }
    assert!(last.contains("ended"), "the last word is the end: {last}");
    assert!(child.wait().unwrap().success());
    let of = "/apis/causeway.dev/v1alpha1/namespaces/default/containernetworktunnelproxies";
    let left = server.kubectl().ok(&["get", "--raw", &format!("{of}/to-host/log")]);
    assert!(left.contains("ended"), "the log outlives the object: {left}");
    let never = server.kubectl().run(&["get", "--raw", &format!("{of}/never/log")]).fails();
    assert!(never.contains("not found"), "{never}");
}

#[test]
fn where_there_are_no_logs_there_are_events() {
    let server = Server::start(&["--no-operator", "--no-node"]);
    server.kubectl().apply(&proxy("to-host", "app", "", &[])).ok();
    let uid = server.kubectl().value("cntp/to-host", ".metadata.uid");
    for (name, time, message) in [
        ("second", "2026-01-01T00:00:02Z", "the link is up"),
        ("first", "2026-01-01T00:00:01Z", "no runtime"),
    ] {
        let event = format!(
            "apiVersion: v1
kind: Event
metadata: {{name: {name}}}
type: Normal
reason: Told
message: {message}
firstTimestamp: '{time}'
lastTimestamp: '{time}'
involvedObject:
  {{apiVersion: causeway.dev/v1alpha1, kind: ContainerNetworkTunnelProxy, name: to-host, namespace: default, uid: {uid}}}
"
        );
        server.kubectl().apply(&event).ok();
    }
    let ran = finish(&mut logs(&server, &[]));
    assert!(ran.stderr.contains("these are the Events about to-host"), "{ran}");
    let both =
        "2026-01-01T00:00:01Z Normal Told: no runtime\n2026-01-01T00:00:02Z Normal Told: the link is up\n";
    assert_eq!(ran.ok(), both);
    assert_eq!(finish(&mut logs(&server, &["--tail", "1"])).ok().lines().count(), 1);
}
