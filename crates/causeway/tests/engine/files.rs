//! The plan file while it is followed: half written, no file at all, and what a command says where nothing can be written.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::program;

use super::{Engine, echo, say, write_plan};

fn make_fifo(path: &Path) {
    finish(Command::new("mkfifo").arg(path)).ok();
}

#[test]
fn what_is_no_plan_takes_no_listener_away_and_the_next_plan_counts() {
    let directory = tempfile::tempdir().unwrap();
    let [plan, kept, said] = ["plan.yaml", "kept.yaml", "said"].map(|name| directory.path().join(name));
    write_plan(&plan, echo());
    let mut command = Command::new(program());
    command.args(["engine", "--config"]).arg(&plan).stderr(File::create(&said).unwrap());
    let mut engine = Engine::start(&mut command);
    let address = engine.address("in");
    let refused = |words: &str| {
        let says = || fs::read_to_string(&said).unwrap().contains(words);
        eventually(words, PATIENCE, says);
        say(&mut TcpStream::connect(address).unwrap(), b"still here").unwrap();
    };
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, "listeners:\n").unwrap();
    refused(":1: listeners: there is no value");
    fs::rename(&plan, &kept).unwrap();
    make_fifo(&plan);
    refused("is not a file that could be followed");
    fs::rename(&kept, &plan).unwrap();
    fs::write(&plan, text.replace("drainTimeout: 1m", "drainTimeout: 2m")).unwrap();
    engine.line("plan applied");
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    make_fifo(&fifo);
    let fifo = fifo.to_str().unwrap();
    for command in [
        &["engine", "--check", "--config", fifo][..],
        &["engine", "--config", fifo],
        &["xds", "--check", "--config", fifo],
        &["xds", "--listen", "127.0.0.1:0", "--config", fifo],
        &["tunnel", "server", "--config", fifo],
    ] {
        let said = finish(Command::new("timeout").arg("20").arg(program()).args(command)).fails();
        assert!(said.contains("give the path of a regular file"), "{command:?}: {said}");
    }
}

#[test]
fn a_plan_can_be_checked_through_a_pipe() {
    let script = "echo 'listeners: []' | $CAUSEWAY engine --check --config /dev/stdin && \
                  $CAUSEWAY xds --check --config <(sleep 0.2; echo 'clusters: []')";
    let said = finish(Command::new("bash").args(["-ec", script]).env("CAUSEWAY", program())).ok();
    assert_eq!(said.matches("is fine: 0 listeners, 0 clusters").count(), 2, "{said}");
}

/// A full disk, and standard streams that are closed.
#[test]
fn a_command_that_can_not_print_ends_as_it_would_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("bad.yaml");
    fs::write(&bad, "clusters:\n- name: a\n- name: a\n").unwrap();
    let host = directory.path().to_str().unwrap();
    for (command, code) in [
        (&["engine", "--check", "--config", "/nowhere"][..], 1),
        (&["engine", "--check", "--config", bad.to_str().unwrap()], 1),
        (&["xds", "--config", bad.to_str().unwrap()], 1),
        (&["--log", "=[", "tunnel", "host", "--dir", host], 1),
        (&["up", "--data-dir", "/proc/nowhere"], 1),
        (&["status", "--data-dir", host, "--no-such-flag"], 2),
    ] {
        for redirection in [">/dev/full 2>&1", ">&- 2>&-"] {
            let script = format!("exec \"$0\" \"$@\" {redirection}");
            let mut shell = Command::new("bash");
            let ended = shell.args(["-c", &script, program()]).args(command).stdin(Stdio::null()).status();
            assert_eq!(ended.unwrap().code(), Some(code), "{command:?} {redirection}");
        }
    }
}

/// Each connection would be logged.
#[test]
fn an_engine_that_can_not_print_serves_on() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.yaml");
    write_plan(&plan, echo());
    let mut command = Command::new(program());
    command
        .args(["--log", "trace", "engine", "--config"])
        .arg(&plan)
        .stderr(File::create("/dev/full").unwrap());
    let mut engine = Engine::start(&mut command);
    let address = engine.address("in");
    for _ in 0..3 {
        say(&mut TcpStream::connect(address).unwrap(), b"on").unwrap();
    }
    assert!(!engine.has_ended());
}
