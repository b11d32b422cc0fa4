//! A reader that has gone is no reason to crash, on either output of any command.

use std::process::{Command, Stdio};

use causeway_testkit::server::{Server, program};

/// The end of a pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn run(server: &Server, args: &[&str], stdout: Stdio, stderr: Stdio) -> Option<i32> {
    let mut command = Command::new(program());
    command.args(args).env("KUBECONFIG", server.kubeconfig()).stdin(Stdio::null());
    command.stdout(stdout).stderr(stderr).status().unwrap().code()
}

#[test]
fn a_closed_pipe_is_survived_quietly() {
    let server = Server::start(&["--no-node", "--no-operator"]);
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/samples/proxyserver-one-machine.yaml");
    server.kubectl().ok(&["apply", "-f", sample]);
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.yaml");
    std::fs::write(&plan, "{}").unwrap();
    let (plan, data) = (plan.to_str().unwrap(), server.data_dir());
    let front = ["proxy/front", "-n", "one-machine"];
    for (args, code) in [
        (vec!["status"], 0),
        (vec!["status", "-o", "json"], 0),
        ([&["routes"], &front[..]].concat(), 0),
        // Something is wrong with it: nothing runs it here.
        ([&["doctor"], &front[..], &["--no-probes"]].concat(), 1),
        (vec!["doctor", "proxy/nobody"], 1),
        (vec!["clean", "--container-runtime", "none", "--data-dir", data.to_str().unwrap()], 0),
        (vec!["completions", "bash"], 0),
        (vec!["version"], 0),
        (vec!["--help"], 0),
        (vec!["engine", "--config", plan, "--check"], 0),
        (vec!["xds", "--print-bootstrap", "--node", "a", "--admin", "127.0.0.1:9901"], 0),
        (vec!["down", "--data-dir", "/nowhere"], 0),
    ] {
        assert_eq!(
            run(&server, &args, unread(), Stdio::inherit()),
            Some(code),
            "standard output of {args:?}"
        );
    }
    for (args, code) in [
        (vec!["status", "--kubeconfig", "/nowhere"], 1),
        (vec!["engine", "--config", "/nowhere", "--check"], 1),
        (vec!["routes", "proxy/nobody"], 1),
        (vec!["logs", "cntp/nobody"], 1),
        (vec!["--no-such-flag"], 2),
    ] {
        assert_eq!(run(&server, &args, Stdio::null(), unread()), Some(code), "standard error of {args:?}");
    }
}

/// The log of a control plane goes to standard error: it must not end with its reader.
#[test]
fn a_control_plane_outlives_the_reader_of_its_log() {
    let root = tempfile::tempdir().unwrap();
    let mut up = causeway_testkit::server::up(root.path());
    up.args(["--no-node", "--no-operator", "--", "true"]).env("CAUSEWAY_LOG", "debug");
    let status = up.stdin(Stdio::null()).stdout(unread()).stderr(unread()).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
