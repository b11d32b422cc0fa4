//! A running `causeway xds` with its plan file.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::{program, signal};
use tempfile::TempDir;

use crate::backend::free_port;
use crate::envoy::Envoy;

pub struct ControlPlane {
    pub dir: TempDir,
    listen: String,
    options: Vec<String>,
    child: Child,
}

impl ControlPlane {
    /// Serves a plan on a free port.
    pub fn start(plan: &str) -> Self {
        Self::start_on(plan, "127.0.0.1:0")
    }

    /// Serves a plan on an address, or on a socket of that name in its own directory.
    pub fn start_on(plan: &str, listen: &str) -> Self {
        Self::start_with(plan, listen, &[])
    }

    /// The same with more options.
    pub fn start_with(plan: &str, listen: &str, options: &[&str]) -> Self {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plan.yaml"), plan).unwrap();
        let listen = match listen.parse::<SocketAddr>() {
            Ok(_) => listen.to_owned(),
            Err(_) => dir.path().join(listen).display().to_string(),
        };
        let child = launch(&dir, &listen, &options);
        let mut started = Self { dir, listen, options, child };
        started.learn_address();
        started
    }

    fn learn_address(&mut self) {
        eventually("the server says where it listens", PATIENCE, || self.log().contains("xds on "));
        let log = self.log();
        let line = log.lines().filter_map(|line| line.strip_prefix("xds on ")).next_back();
        line.unwrap().clone_into(&mut self.listen);
    }

    pub fn address(&self) -> SocketAddr {
        self.listen.parse().unwrap()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        self.child = launch(&self.dir, &self.listen, &self.options);
        self.learn_address();
    }

    /// Puts another plan in place of the last one.
    pub fn write(&self, plan: &str) {
        let new = self.dir.path().join("plan.new");
        std::fs::write(&new, plan).unwrap();
        std::fs::rename(&new, self.dir.path().join("plan.yaml")).unwrap();
        signal(self.child.id(), "HUP");
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn says(&self, text: &str) {
        eventually(&format!("the server says {text}"), PATIENCE, || self.log().contains(text));
    }

    /// An Envoy with the bootstrap that the program prints.
    pub fn envoy(&self, program: &Path, name: &str, delta: bool) -> Envoy {
        let (bootstrap, admin) = Self::bootstrap(name, &self.listen, delta);
        Envoy::start(program, self.dir.path(), &bootstrap, admin)
    }

    /// The bootstrap for an Envoy that connects to `xds`, and its admin address.
    pub fn bootstrap(name: &str, xds: &str, delta: bool) -> (String, SocketAddr) {
        let admin: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let mut print = Command::new(program());
        print.args(["xds", "--print-bootstrap", "--listen", xds, "--node", name]);
        print.args(["--admin", &admin.to_string()]).args((!delta).then_some("--sotw"));
        let printed = print.output().unwrap();
        assert!(printed.status.success(), "{printed:?}");
        (String::from_utf8(printed.stdout).unwrap(), admin)
    }
}

fn launch(dir: &TempDir, listen: &str, options: &[String]) -> Child {
    let log = File::create(dir.path().join("log")).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program(), "xds", "--listen", listen, "--config"]);
    command.arg(dir.path().join("plan.yaml")).args(options).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of causeway xds\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
