//! A child process whose words are kept, and shown when a test fails. It is ended with its value.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use causeway_testkit::eventually;

pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a command that logs to a file in `directory`.
    pub fn start(name: &'static str, directory: &Path, command: &mut Command) -> Self {
        let log = directory.join(format!("{name}.log"));
        let file = File::create(&log).unwrap();
        let child = command
            .env_remove("CAUSEWAY_LOG")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} starts: {error}"));
        Self { name, child, log }
    }

    /// Everything it said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has said this.
    pub async fn says(&mut self, words: &str) {
        eventually(&format!("{} says: {words}", self.name), async || {
            self.must_run();
            self.log().contains(words)
        })
        .await;
    }

    /// How it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Fails the test if it has ended.
    pub fn must_run(&mut self) {
        if let Some(status) = self.status() {
            panic!("{} ended with {status}", self.name);
        }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub async fn ended(&mut self) {
        let name = self.name;
        eventually(&format!("{name} has ended"), async || self.status().is_some()).await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.name, self.log());
        }
    }
}
