//! Real DHCP clients, with a script in the place of their own that changes nothing but the namespace.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::network::inside;

/// Writes down what the client was told at each event, and gives the interface its address.
const SCRIPT: &str = r#"#!/bin/sh
event=${1:-$reason}
case $event in
  bound|renew) ip addr replace "$ip/$mask" dev "$interface" ;;
  BOUND|RENEW|REBOOT) [ -z "$new_ip_address" ] || ip addr replace "$new_ip_address/24" dev "$interface" ;;
esac
env > "$(dirname "$0")/.$event" && mv "$(dirname "$0")/.$event" "$(dirname "$0")/$event"
exit 0
"#;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Udhcpc,
    Dhclient,
    Dhclient6,
    Dhcpcd,
}

/// A client that runs in a machine's namespace.
pub(crate) struct Client {
    child: Child,
    directory: PathBuf,
    kind: Kind,
}

impl Client {
    pub(crate) fn start(kind: Kind, machine: &str, directory: &Path, more: &[&str]) -> Self {
        fs::create_dir_all(directory).unwrap();
        let script = directory.join("script");
        fs::write(&script, SCRIPT).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let script = script.to_str().unwrap();
        // dhclient wants its file to be there.
        fs::write(directory.join("leases.client"), "").unwrap();
        let (program, args): (&str, &[&str]) = match kind {
            Kind::Udhcpc => (
                "busybox",
                &[
                    "udhcpc",
                    "-f",
                    "-i",
                    "eth0",
                    "-s",
                    script,
                    "-O",
                    "mtu",
                    "-O",
                    "search",
                    "-O",
                    "staticroutes",
                    "-O",
                    "ntpsrv",
                    "-T",
                    "1",
                    "-t",
                    "20",
                    "-R",
                ],
            ),
            Kind::Dhclient => (
                "dhclient",
                &[
                    "-4",
                    "-d",
                    "-v",
                    "-sf",
                    script,
                    "-lf",
                    "leases.client",
                    "-pf",
                    "pid",
                    "-cf",
                    "/dev/null",
                    "eth0",
                ],
            ),
            Kind::Dhclient6 => (
                "dhclient",
                &[
                    "-6",
                    "-d",
                    "-v",
                    "-sf",
                    script,
                    "-lf",
                    "leases.client",
                    "-pf",
                    "pid",
                    "-cf",
                    "/dev/null",
                    "eth0",
                ],
            ),
            // Its directories can't be chosen. `ip netns exec` has mounts of its own, so that others do not see these.
            Kind::Dhcpcd => (
                "sh",
                &[
                    "-c",
                    "mkdir -p /var/lib/dhcpcd /run/dhcpcd && mount -t tmpfs none /var/lib/dhcpcd && \
                     mount -t tmpfs none /run/dhcpcd && exec dhcpcd -4 -B -d -c \"$0\" --noipv4ll eth0",
                    script,
                ],
            ),
        };
        let log = fs::File::create(directory.join("client.log")).unwrap();
        let child = inside(machine, program)
            .args(args)
            .args(more)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, directory: directory.to_owned(), kind }
    }

    /// What the client was told at an event, once that has come.
    pub(crate) fn told(&self, events: &[&str]) -> HashMap<String, String> {
        let text = eventually(&format!("{:?} says one of {events:?}", self.kind), PATIENCE, || {
            let found = events.iter().find_map(|event| fs::read_to_string(self.directory.join(event)).ok());
            found.ok_or_else(|| fs::read_to_string(self.directory.join("client.log")).unwrap_or_default())
        });
        text.lines()
            .filter_map(|line| line.split_once('='))
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect()
    }

    /// Waits for a lease, and returns what came with it.
    pub(crate) fn bound(&self) -> HashMap<String, String> {
        match self.kind {
            Kind::Udhcpc => self.told(&["bound"]),
            Kind::Dhclient | Kind::Dhcpcd => self.told(&["BOUND", "REBOOT"]),
            Kind::Dhclient6 => self.told(&["BOUND6"]),
        }
    }

    /// Asks it to end, which for most means to give back its lease.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        std::process::Command::new("kill").args([signal, &pid]).status().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
