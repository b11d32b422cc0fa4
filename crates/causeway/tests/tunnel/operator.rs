//! `causeway operator` beside an API server, as a person starts it on a machine.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{Server, program, signal};
use tempfile::TempDir;

use crate::world::{client_service, proxy};

/// An operator with an election.
pub struct Operator {
    child: Child,
    /// Its working directory and, beside that, its log.
    root: TempDir,
}

fn command(server: &Server, runtime: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args([
            "operator",
            "--namespace",
            "default",
            "--observe",
            "127.0.0.1:0",
            "--container-runtime",
            runtime,
        ])
        .args(args)
        .env("KUBECONFIG", server.kubeconfig())
        .env_remove("CAUSEWAY_LOG")
        .env_remove("CAUSEWAY_DATA_DIR")
        .stdin(Stdio::null());
    command
}

impl Operator {
    pub fn start(server: &Server, runtime: &str, args: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let output = File::create(root.path().join("log")).unwrap();
        let work = root.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let mut command = command(server, runtime, args);
        command.current_dir(work).env("XDG_DATA_HOME", root.path().join("data"));
        let child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        Self { child, root }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the operator\n{}", self.log());
        }
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

#[test]
fn an_operator_keeps_off_the_data_directory_of_a_control_plane() {
    let mut server = Server::start(&["--no-operator"]);
    let dir = server.data_dir();
    let operator = |server: &Server| {
        let args = ["--data-dir", dir.to_str().unwrap()];
        finish(&mut command(server, "/nowhere/docker.sock", &args)).fails()
    };
    let said = operator(&server);
    assert!(said.contains("is the data directory of `causeway up` (pid"), "{said}");
    assert!(said.contains("one of its own with --data-dir"), "what to do: {said}");
    // The containers of one that does not run at the moment are its own all the same.
    server.stop();
    let said = operator(&server);
    assert!(said.contains("is the data directory of `causeway up`"), "{said}");
}

#[test]
fn without_a_runtime_nothing_is_written_and_the_object_says_why() {
    let server = Server::start(&["--no-operator"]);
    let kubectl = server.kubectl();
    let operator = Operator::start(&server, "none", &[]);
    let yaml = [client_service("api"), proxy("to-host", "app", "", &[("api", "api", "")])].concat();
    kubectl.apply(&yaml).ok();
    eventually("the condition says who switched it off", PATIENCE, || {
        let conditions = "jsonpath={.status.conditions[?(@.type==\"Ready\")]}";
        let said = kubectl.run(&["get", "cntp/to-host", "-o", conditions]).stdout;
        said.contains("RuntimeUnavailable") && said.contains("--container-runtime none")
    });
    let files: Vec<_> = walk(operator.root.path());
    assert_eq!(files, ["log", "work"], "neither in the working directory nor in that of its data");
    kubectl.ok(&["delete", "cntp/to-host", "--timeout=30s"]);
}

fn walk(dir: &std::path::Path) -> Vec<String> {
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .flat_map(|entry| {
            let entry = entry.unwrap();
            let below = if entry.path().is_dir() { walk(&entry.path()) } else { Vec::new() };
            [entry.file_name().into_string().unwrap()].into_iter().chain(below)
        })
        .collect();
    found.sort();
    found
}
