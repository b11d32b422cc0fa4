//! `causeway dhcp` in a namespace, with its plan and leases in a directory of the test's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::program;
use serde_json::Value;

use crate::network::{Network, SERVER, inside};

/// The usual plan, to which a test adds lines.
pub(crate) fn plan(more: &str) -> String {
    format!(
        "interface: lan\nserver: {SERVER}\nnetwork: 10.77.0.0/24\n\
         pool: {{first: 10.77.0.10, last: 10.77.0.99}}\ngateway: 10.77.0.1\n\
         dnsServers: [10.77.0.53, 10.77.0.54]\ndomain: lab.test\nsearch: [lab.test, example.test]\nmtu: 1400\n\
         routes: [{{to: 10.9.0.0/16, via: 10.77.0.7}}]\nntpServers: [10.77.0.123]\n{more}"
    )
}

pub(crate) struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Starts on a directory, and waits until it serves. What an earlier server left there is taken up.
    pub(crate) fn start(network: &Network, directory: &Path, plan: &str) -> Self {
        Self::start_in(&network.server(), directory, plan)
    }

    /// The same, in any namespace.
    pub(crate) fn start_in(namespace: &str, directory: &Path, plan: &str) -> Self {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("plan.yaml"), plan).unwrap();
        let log = File::create(directory.join("log")).unwrap();
        let child = inside(namespace, program())
            .args(["dhcp", "--config", "plan.yaml", "--leases", "leases", "--admin", "./admin"])
            .current_dir(directory)
            .env("CAUSEWAY_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { child, directory: directory.to_owned() };
        server.says("serving 10.77");
        server
    }

    /// Waits until it has said something.
    pub(crate) fn says(&mut self, words: &str) {
        eventually(&format!("the server says `{words}`"), PATIENCE, || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended ({ended:?}):\n{}", self.log());
            if self.log().contains(words) { Ok(()) } else { Err(self.log()) }
        });
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Writes another plan in the place of the one that runs, and waits until it runs.
    pub(crate) fn change(&mut self, plan: &str) {
        let before = self.log().matches("plan applied").count();
        fs::write(self.directory.join("next.yaml"), plan).unwrap();
        fs::rename(self.directory.join("next.yaml"), self.directory.join("plan.yaml")).unwrap();
        eventually("the new plan runs", PATIENCE, || {
            if self.log().matches("plan applied").count() > before { Ok(()) } else { Err(self.log()) }
        });
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Addresses that are leased and their clients, as `causeway leases` says.
    pub(crate) fn leases(&self) -> BTreeMap<String, Value> {
        leases(&self.directory)
    }

    /// What the admin socket answers.
    pub(crate) fn admin(&self, path: &str) -> String {
        let output = Command::new("curl")
            .args(["-sS", "--unix-socket", "admin", &format!("http://localhost{path}")])
            .current_dir(&self.directory)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The active leases in a directory, by address.
pub(crate) fn leases(directory: &Path) -> BTreeMap<String, Value> {
    let output = Command::new(program())
        .args(["leases", "leases", "-o", "json"])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = answer["leases"].as_array().unwrap().iter().filter(|lease| lease["active"] == true);
    all.map(|lease| (lease["address"].as_str().unwrap().to_owned(), lease.clone())).collect()
}
