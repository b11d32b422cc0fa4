//! A developer's machine beside the cluster, and clients of the cluster's Services: both are in the first node's network, seen
//! from outside of all pods.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::kubernetes::Kubernetes;
use causeway_testkit::server::program;
use causeway_testkit::{Answer, asking};
use serde_json::Value;

use super::FALLBACK;
use crate::world::{PATIENCE, World, cluster, enter, there};

/// A developer's machine with a data directory of its own and a program that says its name.
pub struct Laptop {
    name: &'static str,
    namespace: String,
    home: tempfile::TempDir,
    pub port: u16,
    local: Option<Child>,
}

impl Laptop {
    pub fn new(world: &World, name: &'static str, port: u16) -> Self {
        let mut laptop = Self::bare(world, name, port);
        let mut echo = cluster().unwrap().on_node(program());
        echo.args(["echo", "--listen", &format!("127.0.0.1:{port}"), "--name", name]);
        echo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        laptop.local = Some(echo.spawn().unwrap());
        laptop
    }

    /// Without a program.
    pub fn bare(world: &World, name: &'static str, port: u16) -> Self {
        let namespace = world.kubectl.namespace.clone();
        Self { name, namespace, home: tempfile::tempdir().unwrap(), port, local: None }
    }

    /// The same with its Workstation in another namespace.
    pub fn of(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = cluster().unwrap().on_node(program());
        command.args(arguments);
        // All connections of a machine are shown or ended, wherever they lead; an installation has a namespace of its own.
        let everywhere = ["connections", "install", "uninstall", "check"];
        if !matches!(arguments, [command, ..] if everywhere.contains(command))
            && !matches!(arguments, ["disconnect", "--all", ..])
        {
            command.args(["--namespace", &self.namespace]);
        }
        // That of the cluster's own network, not the one for this process.
        command.env("KUBECONFIG", Kubernetes::kubeconfig(cluster().unwrap()));
        command.env("CAUSEWAY_DATA_DIR", self.home.path()).env("HOME", self.home.path()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    pub fn connect(&self, way: &str) -> Value {
        let connected = self.run(&["connect", "--name", self.name, "--way", way, "-o", "json"]).ok();
        serde_json::from_str(&connected).unwrap()
    }

    pub fn connections(&self) -> Value {
        serde_json::from_str(&self.run(&["connections", "-o", "json"]).ok()).unwrap()
    }

    /// Takes traffic of port 8080.
    pub fn intercept(&self, target: &str, arguments: &[&str]) -> Ran {
        let port = format!("{}:8080", self.port);
        self.run(&[&["intercept", target, "--port", &port], arguments].concat())
    }

    /// Takes what has its name in a header.
    pub fn intercept_mine(&self, target: &str) -> Ran {
        self.intercept(target, &["--header", &format!("x-user={}", self.name)])
    }

    /// One of the keys that never leave it.
    pub fn key(&self, name: &str) -> String {
        let mut places = vec![self.home.path().to_owned()];
        while let Some(place) = places.pop() {
            for entry in place.read_dir().unwrap().map(Result::unwrap) {
                if entry.file_name() == name {
                    return std::fs::read_to_string(entry.path()).unwrap();
                }
                places.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
            }
        }
        panic!("there is no {name}")
    }

    /// Ends its daemon as a power cut would.
    pub fn kill(&self) {
        let pid = self.connections()["connections"][0]["pid"].as_i64().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

/// Kills a machine's daemon, and waits for the original to answer in its place, in no more time than that may take.
pub fn died<A: Answer>(laptop: &Laptop, mut is_back: impl FnMut() -> A) {
    laptop.kill();
    let since = Instant::now();
    eventually("the original answers for it", PATIENCE, &mut is_back);
    println!("the original answered {:.1?} after the laptop died", since.elapsed());
    assert!(since.elapsed() < FALLBACK, "{:.1?}", since.elapsed());
}

impl Drop for Laptop {
    fn drop(&mut self) {
        self.run(&["disconnect", "--all", "--force"]);
        if let Some(mut local) = self.local.take() {
            let _ = local.kill();
            let _ = local.wait();
        }
    }
}

/// Asks a Service, with a user in the header or with none; who answered.
pub fn ask(address: &str, user: Option<&str>) -> Result<String, String> {
    let header = user.map(|user| format!("X-User: {user}"));
    let headers: Vec<&str> = header.as_deref().into_iter().collect();
    there(|| asking::ask(address, 80, &headers))
}

pub fn answers(address: &str, user: Option<&str>, by: &str) -> Result<(), String> {
    let answer = ask(address, user)?;
    if answer == by { Ok(()) } else { Err(answer) }
}

/// 50 requests a second of others to the Service of `web`, which is all that may answer.
pub fn others(address: &str) -> asking::Load {
    // The rules of the node may not have a new Service yet.
    eventually("the Service answers", PATIENCE, || answers(address, None, "web"));
    let asked = asking::Asked {
        at: (address.to_owned(), 80),
        headers: Vec::new(),
        answerers: vec!["web"],
        pause: Duration::from_millis(40),
    };
    asking::Load::start(&asked, enter)
}
