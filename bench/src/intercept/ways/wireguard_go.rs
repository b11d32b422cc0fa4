//! wireguard-go, as others use it: on TUN devices of two machines with the kernel's TCP, and with its own stack.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use causeway_netstack::wireguard::SecretKey;

use crate::compare::names::{EVERYWHERE, PLAIN_BACKEND};
use crate::compare::namespace::ip;
use crate::intercept::ends;
use crate::intercept::far::Far;

/// Where users of its own stack connect.
pub(super) const USERS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7082);
/// The addresses in the tunnel.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 2);
const PORT: u16 = 7847;
const MTU: u16 = 1420;

/// Where the backend is for who comes through a TUN device.
pub(super) fn backend() -> SocketAddrV4 {
    SocketAddrV4::new(NEAR, EVERYWHERE.port())
}

/// The device of one side.
fn device(side: &str) -> String {
    format!("cwb{}{side}", std::process::id())
}

/// One on each machine.
pub(super) fn commands(program: &Path, far: &Far) -> Vec<Command> {
    let (mut near, mut there) = (Command::new(program), far.command(program));
    near.args(["--foreground", &device("n")]).env("LOG_LEVEL", "error");
    there.args(["--foreground", &device("f")]).env("LOG_LEVEL", "error");
    vec![near, there]
}

/// Tells both of each other, as soon as they listen; once.
pub(super) fn configure(far: &Far, dir: &Path) -> anyhow::Result<()> {
    if shows(far, &device("f")) {
        return Ok(());
    }
    ends::make_keys(dir)?;
    let (near_key, far_key) = (ends::key(dir, "hub.key")?, ends::key(dir, "laptop.key")?);
    let set = |mut command: Command, own: &str, peer: String, allowed: Ipv4Addr, at: Ipv4Addr, name: &str| {
        let endpoint = format!("{at}:{PORT}");
        command.args(["set", name, "listen-port", &PORT.to_string(), "private-key"]).arg(dir.join(own));
        command.args(["peer", &peer, "allowed-ips", &format!("{allowed}/32"), "endpoint", &endpoint]);
        let output = command.output().context("can't start `wg` (package wireguard-tools)")?;
        ensure!(output.status.success(), "wg: {}", String::from_utf8_lossy(&output.stderr).trim());
        anyhow::Ok(())
    };
    let wg = Path::new("wg");
    set(Command::new(wg), "hub.key", far_key.public().to_string(), FAR, far.there, &device("n"))?;
    set(far.command(wg), "laptop.key", near_key.public().to_string(), NEAR, far.near, &device("f"))?;
    for (inside, name, address) in
        [(String::new(), device("n"), NEAR), (format!("-n {} ", far.name()), device("f"), FAR)]
    {
        ip(&format!("{inside}address replace {address}/24 dev {name}"))?;
        ip(&format!("{inside}link set {name} mtu {MTU} up"))?;
    }
    Ok(())
}

/// Whether a device is up already.
fn shows(far: &Far, name: &str) -> bool {
    let mut command = far.command(Path::new("ip"));
    command.args(["-o", "address", "show", "dev", name, "up"]).stderr(Stdio::null());
    command.output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&FAR.to_string()))
}

/// The two ends with its own stack; `there` is the program where users are.
pub(super) fn netstack(program: &Path, mut there: Command, near_at: Ipv4Addr) -> Vec<Command> {
    // Who they are does not matter: nobody else is in these namespaces.
    let (hub, laptop) = (SecretKey([0x48; 32]), SecretKey([0x50; 32]));
    let (backend, users, endpoint) =
        (PLAIN_BACKEND.to_string(), USERS.to_string(), format!("{near_at}:{PORT}"));
    let mut near = Command::new(program);
    near.args(["listen", &hex(hub.0), &hex(laptop.public().0), &PORT.to_string(), &backend]);
    there.args(["dial", &hex(laptop.0), &hex(hub.public().0), &endpoint, &users]);
    vec![near, there]
}

fn hex(key: [u8; 32]) -> String {
    key.iter().fold(String::new(), |mut text, byte| {
        // Nothing can be wrong with a String.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
