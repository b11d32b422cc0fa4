//! A network of its own: a namespace with a bridge for the server, and one for each machine on it. All goes when the
//! value is dropped.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_testkit::peer;

/// The server's own address on the bridge.
pub(crate) const SERVER: &str = "10.77.0.2";

pub(crate) struct Network {
    name: String,
    /// Their namespaces, and their ports on the bridge.
    machines: Vec<(String, String)>,
}

impl Network {
    /// Makes the server's namespace; none, and the test is skipped, without root or one of these programs.
    pub(crate) fn new(programs: &[&str]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path: Vec<_> = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
        let missing = programs.iter().find(|program| !path.iter().any(|place| place.join(program).is_file()));
        if let Some(program) = missing.filter(|_| root) {
            peer::skip(&format!("{program} is not installed (scripts/test-deps.sh)"));
            return None;
        }
        if !root {
            peer::skip("network namespaces need root");
            return None;
        }
        let name = format!("cwd{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let network = Self { name, machines: Vec::new() };
        let server = network.server();
        ip(&["netns", "add", &server]);
        ip(&["-n", &server, "link", "set", "lo", "up"]);
        network.make_bridge();
        Some(network)
    }

    /// Makes the bridge, and puts all machines on it.
    pub(crate) fn make_bridge(&self) {
        let server = self.server();
        for command in [
            "link add lan type bridge",
            &format!("address add {SERVER}/24 dev lan"),
            "address add fd77::2/64 dev lan nodad",
            "link set lan up",
        ] {
            ip(&[&["-n", &server][..], &command.split(' ').collect::<Vec<_>>()].concat());
        }
        for (_, port) in &self.machines {
            ip(&["-n", &server, "link", "set", port, "master", "lan"]);
        }
    }

    /// Takes the bridge away.
    pub(crate) fn remove_bridge(&self) {
        ip(&["-n", &self.server(), "link", "delete", "lan"]);
    }

    /// The server's namespace.
    pub(crate) fn server(&self) -> String {
        format!("{}-s", self.name)
    }

    /// Adds a machine with the interface `eth0` and this last byte of its card; returns its namespace.
    pub(crate) fn machine(&mut self, card: u8) -> String {
        let (server, machine) = (self.server(), format!("{}-{card}", self.name));
        let port = format!("port{card}");
        ip(&["netns", "add", &machine]);
        ip(&[
            "link", "add", &port, "netns", &server, "type", "veth", "peer", "name", "eth0", "netns", &machine,
        ]);
        ip(&["-n", &server, "link", "set", &port, "master", "lan", "up"]);
        ip(&["-n", &machine, "link", "set", "lo", "up"]);
        ip(&["-n", &machine, "link", "set", "eth0", "address", &format!("02:77:00:00:00:{card:02x}"), "up"]);
        self.machines.push((machine.clone(), port));
        machine
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in self.machines.iter().map(|(machine, _)| machine).chain([&self.server()]) {
            // Clients such as dhcpcd leave processes behind that nobody is the parent of.
            let pids = Command::new("ip").args(["netns", "pids", namespace]).output();
            let pids =
                pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
            for pid in pids.split_whitespace() {
                let _ = Command::new("kill").args(["-9", pid]).output();
            }
            let _ = Command::new("ip").args(["netns", "delete", namespace]).output();
        }
    }
}

/// A program in a namespace.
pub(crate) fn inside(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

pub(crate) fn ip(args: &[&str]) -> Output {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
