//! A machine without Docker and Podman: conditions that say what was tried and what to do, and nothing hangs.

use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{Server, program};

use crate::world::{network, proxy};

fn conditions(server: &Server, object: &str) -> String {
    let kubectl = server.kubectl();
    kubectl.run(&["get", object, "-o", "jsonpath={.status.conditions}"]).stdout
}

#[test]
fn conditions_name_the_sockets_that_were_tried() {
    let server = Server::start(&["--container-runtime", "/nowhere/docker.sock"]);
    server.kubectl().apply(&[network("app", "{}"), proxy("to-host", "app", "", &[])].concat()).ok();
    for object in ["containernetwork/app", "cntp/to-host"] {
        eventually("the condition names the socket and what to do", PATIENCE, || {
            let said = conditions(&server, object);
            said.contains("RuntimeUnavailable")
                && said.contains("/nowhere/docker.sock (no such file)")
                && said.contains("--container-runtime")
        });
    }
    // Nothing of it is in a runtime, so nothing keeps it from going.
    server.kubectl().ok(&["delete", "cntp/to-host", "containernetwork/app", "--timeout=30s"]);
}

#[test]
fn runtimes_that_are_switched_off_are_said_to_be() {
    let server = Server::start(&["--container-runtime", "none"]);
    server.kubectl().apply(&network("app", "{}")).ok();
    eventually("the condition says who switched it off", PATIENCE, || {
        let said = conditions(&server, "containernetwork/app");
        said.contains("RuntimeUnavailable") && said.contains("--container-runtime none")
    });
}

#[test]
fn the_demo_says_what_is_missing() {
    let demo = |runtime: &str| {
        let mut command = Command::new(program());
        finish(command.args(["demo", "tunnel", "--container-runtime", runtime]).env_remove("KUBECONFIG"))
            .fails()
    };
    let said = demo("/nowhere/docker.sock");
    assert!(said.contains("no container runtime answers: /nowhere/docker.sock (no such file)"), "{said}");
    assert!(demo("none").contains("needs Docker or Podman"));
}
