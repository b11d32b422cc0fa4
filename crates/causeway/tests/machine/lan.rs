//! Isolated networks: bridges of this machine, and virtual machines on them. All goes with the values.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_testkit::kubectl::finish;
use causeway_testkit::peer;
use nix::sched::{CloneFlags, unshare};

/// The name of a network that nobody else on this machine uses.
pub fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{:x}v{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Takes this test, and all that it starts, to a machine of its own: one without a firewall, without the interfaces and the
/// control planes of others. False where that can't be, and the test is skipped.
pub fn leave_machine() -> bool {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let has_ip = Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success());
    if !is_root || !has_ip {
        peer::skip("isolated networks need root and ip(8)");
        return false;
    }
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    ip("link set lo up");
    true
}

/// A bridge.
pub struct Lan {
    pub name: String,
}

impl Lan {
    pub fn new() -> Self {
        let lan = Self { name: name() };
        ip(&format!("link add {} type bridge", lan.name));
        ip(&format!("link set {} up", lan.name));
        lan
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "delete", &self.name]).output();
    }
}

/// A machine with one interface, `eth0`, and no other way anywhere.
pub struct Vm {
    name: String,
}

impl Vm {
    /// One on a bridge, with this address or none.
    pub fn on(bridge: &str, address: Option<&str>) -> Self {
        let vm = Self::beside(address);
        ip(&format!("link set {} master {bridge}", vm.port()));
        vm
    }

    /// One whose cable ends at the interface [`Vm::port`] of this machine.
    pub fn beside(address: Option<&str>) -> Self {
        let vm = Self { name: name() };
        ip(&format!("netns add {}", vm.name));
        ip(&format!("link add {} type veth peer name eth0 netns {}", vm.port(), vm.name));
        ip(&format!("link set {} up", vm.port()));
        ip(&format!("-n {} link set lo up", vm.name));
        ip(&format!("-n {} link set eth0 up", vm.name));
        if let Some(address) = address {
            ip(&format!("-n {} address add {address} dev eth0", vm.name));
        }
        vm
    }

    pub fn port(&self) -> String {
        format!("{}p", self.name)
    }

    /// A program on the machine.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Asks for a host at an address; what was answered, or why nothing was.
    pub fn ask(&self, host: &str, address: &str, certificate: &str) -> Result<String, String> {
        let mut curl = self.command("curl");
        curl.args(["--silent", "--show-error", "--max-time", "5", "--cacert", certificate]);
        curl.args(["--resolve", &format!("{host}:443:[{address}]"), &format!("https://{host}/")]);
        let ran = finish(&mut curl);
        if ran.code == Some(0) { Ok(ran.stdout) } else { Err(ran.stderr) }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "delete", &self.port()]).output();
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
    }
}

/// Runs ip(8), which must succeed.
pub fn ip(arguments: &str) -> String {
    finish(Command::new("ip").args(arguments.split(' '))).ok()
}

/// Whether this machine has an interface of that name.
pub fn has_link(name: &str) -> bool {
    Command::new("ip").args(["link", "show", name]).output().is_ok_and(|output| output.status.success())
}
