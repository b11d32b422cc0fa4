//! A real Envoy. It is ended with the value, and by the system if the tests end without dropping it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::http;

/// A running Envoy.
pub struct Envoy {
    child: Child,
    pub admin: SocketAddr,
    log: PathBuf,
}

impl Envoy {
    /// Starts with a bootstrap file; `admin` is its admin address.
    pub fn start(program: &Path, dir: &Path, bootstrap: &str, admin: SocketAddr) -> Self {
        let name = admin.port();
        let (config, log) = (dir.join(format!("envoy-{name}.json")), dir.join(format!("envoy-{name}.log")));
        std::fs::write(&config, bootstrap).expect("the bootstrap can be written");
        let out = File::create(&log).expect("a log file");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command.args([
            "--use-dynamic-base-id",
            "--concurrency",
            "1",
            "--drain-time-s",
            "5",
            "-l",
            "warning",
            "-c",
        ]);
        command.arg(&config).stdin(Stdio::null());
        command.stdout(out.try_clone().expect("a second handle of the log")).stderr(out);
        Self { child: command.spawn().expect("Envoy starts"), admin, log }
    }

    /// What it printed, its access log among it.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A page of its admin door; empty if it does not answer.
    pub fn page(&self, path: &str) -> String {
        http::get(self.admin, path).unwrap_or_default()
    }

    /// Waits until a page has a text in it.
    pub fn shows(&self, path: &str, text: &str) {
        eventually(&format!("{path} of Envoy shows {text}"), PATIENCE, || self.page(path).contains(text));
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of Envoy {}\n{}", self.admin, self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
