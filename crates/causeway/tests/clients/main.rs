//! `causeway up` with clients in other languages. They come from `scripts/test-deps.sh`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use causeway_testkit::environment;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::Server;

#[test]
fn the_python_client_works() {
    let Some(python) = environment::python("kubernetes") else { return };
    let server = Server::start(&["--no-node", "--no-operator"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python.py");
    let said = finish(Command::new(python).arg(script).env("KUBECONFIG", server.kubeconfig())).ok();
    let steps: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    assert_eq!(
        steps,
        ["core_kinds", "errors", "workloads", "watches", "custom_objects", "dynamic_client", "schemas"]
    );
}

#[test]
fn the_python_client_forwards_ports() {
    let Some(python) = environment::python("kubernetes") else { return };
    let server = Server::start(&["--no-operator"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/port_forward.py");
    let said = finish(Command::new(python).arg(script).env("KUBECONFIG", server.kubeconfig())).ok();
    let steps: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    assert_eq!(steps, ["two_ports", "a_closed_port", "no_such_pod"]);
}
