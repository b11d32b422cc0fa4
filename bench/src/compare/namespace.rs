//! A network namespace of our own, so that no packet leaves the machine and no port is taken from anybody.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// Tells the second start of this program from the first.
const MARK: &str = "CAUSEWAY_BENCH_NAMESPACE";

/// Goes on within a namespace: starts this program again in one, unless it is there already. What was built is named,
/// so that it is not built again.
pub(crate) fn enter(built: Option<&Path>) -> anyhow::Result<()> {
    if std::env::var_os(MARK).is_some() {
        return up();
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root may make the network namespace that this bench runs in: run it with sudo"
    );
    let own = std::env::current_exe().context("can't find this program's own file")?;
    let mut again = Command::new("unshare");
    again.arg("--net").arg(own).args(std::env::args_os().skip(1)).env(MARK, "1");
    if let Some(causeway) = built {
        again.arg("--causeway").arg(causeway);
    }
    let error = again.exec();
    bail!("can't start `unshare` (package util-linux): {error}")
}

/// Loopback works as elsewhere, with one congestion control whatever the host's is.
fn up() -> anyhow::Result<()> {
    ip("link set lo up")?;
    for net in ["127.0.0.0/8", "127.0.0.1"] {
        let route = format!(
            "route replace local {net} dev lo table local proto kernel scope host src 127.0.0.1 congctl cubic"
        );
        ip(&route)?;
    }
    Ok(())
}

/// Runs `ip` with words that are separated by spaces.
pub(crate) fn ip(arguments: &str) -> anyhow::Result<()> {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .context("can't start `ip` (package iproute2)")?;
    ensure!(status.success(), "`ip {arguments}` failed");
    Ok(())
}
