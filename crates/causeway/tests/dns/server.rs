//! A running `causeway dns`, and the tools to ask it with.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use causeway_testkit::peer;
use causeway_testkit::server::program;
use tempfile::TempDir;

/// Ended when it is dropped.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    directory: TempDir,
    /// Where it answers.
    pub(crate) address: SocketAddr,
    /// Where it shows metrics.
    admin: String,
}

impl Server {
    /// Starts with a plan; the first bind is the one that is asked.
    pub(crate) fn start(plan: &str) -> Self {
        Self::start_with(plan, &[])
    }

    /// The same, with more arguments.
    pub(crate) fn start_with(plan: &str, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("zone.yaml"), plan).unwrap();
        let mut command = Command::new(program());
        let mut child = command
            .args(["dns", "--admin", "127.0.0.1:0", "--config"])
            .arg(directory.path().join("zone.yaml"))
            .arg("--query-log")
            .arg(directory.path().join("queries"))
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let admin = after(&mut stdout, "admin on ");
        let address = after(&mut stdout, "listening on ").parse().unwrap();
        Self { child, stdout, directory, address, admin }
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join("zone.yaml")
    }

    /// The lines of the query log.
    pub(crate) fn queries(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("queries")).unwrap_or_default()
    }

    /// Replaces the plan, and waits until it is in use.
    pub(crate) fn change(&mut self, plan: &str) {
        write(&self.config(), plan);
        after(&mut self.stdout, "plan applied");
    }

    /// What an admin path shows.
    pub(crate) fn shown(&self, path: &str) -> String {
        let output = Command::new("curl").arg("-s").arg(format!("{}{path}", self.admin)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// What dig prints, asked with these words.
    pub(crate) fn dig(&self, words: &str) -> String {
        dig(self.address, words)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces a file at once.
pub(crate) fn write(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(next, path).unwrap();
}

/// Reads lines until one begins so, and gives what follows.
fn after(stdout: &mut BufReader<ChildStdout>, start: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "ended before it said `{start}`");
        if let Some(rest) = line.strip_prefix(start) {
            return rest.trim().to_owned();
        }
    }
}

/// What dig prints.
pub(crate) fn dig(server: SocketAddr, words: &str) -> String {
    ask("dig", "+time=10 +tries=1", server, words)
}

/// What kdig prints.
pub(crate) fn kdig(server: SocketAddr, words: &str) -> String {
    ask("kdig", "+timeout=10 +retry=0", server, words)
}

fn ask(tool: &str, patience: &str, server: SocketAddr, words: &str) -> String {
    let mut command = Command::new(tool);
    command
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()])
        .args(patience.split(' '));
    let output = command.args(words.split(' ')).output().unwrap_or_else(|error| panic!("{tool}: {error}"));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether these programs are here; if not, the test is skipped.
pub(crate) fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    let missing = programs.iter().find(|name| !places.iter().any(|place| place.join(name).is_file()));
    if let Some(name) = missing {
        peer::skip(&format!("{name} is not installed (Debian: dnsutils, knot-dnsutils, knot, unbound)"));
    }
    missing.is_none()
}
