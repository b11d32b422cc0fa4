//! What outlives the control plane keeps nothing that the control plane was given: a lock, or the end of a pipe.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::program;

/// Ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts the program with a descriptor of `lock` that nobody told it about.
    fn start(lock: &Path, args: &[&str]) -> Self {
        let mut shell = Command::new("bash");
        shell.args(["-c", "exec 8>\"$1\"; shift; exec \"$0\" \"$@\"", program()]).arg(lock).args(args);
        Self(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn has(&self, file: &Path) -> bool {
        let open = fs::read_dir(format!("/proc/{}/fd", self.0.id())).unwrap();
        open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()).any(|open| open == file)
    }
}

#[test]
fn a_host_end_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    finish(Command::new(program()).args(["tunnel", "identity", dir])).ok();
    fs::write(directory.path().join("plan.json"), r#"{"authority":"authority.pem","tunnels":[]}"#).unwrap();
    let lock = directory.path().join("lock");
    let host = Process::start(&lock, &["tunnel", "host", "--dir", dir]);
    eventually("it answers", PATIENCE, || directory.path().join("host.sock").exists());
    assert!(lock.exists() && !host.has(&lock));
}

#[test]
fn the_shim_of_a_pod_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("lock");
    let shim = Process::start(&lock, &["pod-shim", "run", directory.path().to_str().unwrap()]);
    // It waits for the node's word.
    eventually("it has closed what is not its own", PATIENCE, || lock.exists() && !shim.has(&lock));
}
