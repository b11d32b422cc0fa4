//! Two namespaces with a wire between them: the server's and the load's. They go when the value is dropped.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, ensure};

/// The server's interface, address and network.
pub(super) const INTERFACE: &str = "wire";
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(super) const NETWORK: &str = "10.0.0.0/8";
/// More addresses than any run needs.
pub(super) const POOL: (&str, &str) = ("10.16.0.0", "10.255.255.0");
/// The load's address, which poses as a relay in the same network.
pub(super) const RELAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

/// The two namespaces.
pub(super) struct Network {
    pub(super) server: String,
    pub(super) load: String,
}

impl Network {
    pub(super) fn new() -> anyhow::Result<Self> {
        let name = |side: &str| format!("cwbench{}-{side}", std::process::id());
        let network = Self { server: name("s"), load: name("l") };
        let Self { server, load } = &network;
        for namespace in [server, load] {
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        ip(&format!("link add {INTERFACE} netns {server} type veth peer name {INTERFACE} netns {load}"))?;
        for (namespace, address) in [(server, SERVER), (load, RELAY)] {
            ip(&format!("-n {namespace} address add {address}/8 dev {INTERFACE}"))?;
            ip(&format!("-n {namespace} link set {INTERFACE} up"))?;
        }
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.load] {
            let _ = ip(&format!("netns delete {namespace}"));
        }
    }
}

/// A program in a namespace, on one processor.
pub(super) fn inside(namespace: &str, processor: usize) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "taskset", "-c", &processor.to_string()]);
    command
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .context("can't start `ip` (package iproute2)")?;
    ensure!(status.success(), "`ip {arguments}` failed");
    Ok(())
}
