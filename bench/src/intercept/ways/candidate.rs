//! The ways that are compared, and how the program of each is found.

use std::path::PathBuf;

use anyhow::Context;

use crate::compare::programs::Programs;

/// A way from a laptop to a backend in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Candidate {
    /// No way: what the load itself costs.
    Direct,
    /// Our link: mutual TLS 1.3
    Link,
    /// Our link through the API server of `causeway up`
    PortForward,
    /// WireGuard in user space, both ends ours
    Wireguard,
    /// wireguard-go on TUN devices, the kernel's TCP, no proxies: needs root on both machines
    WireguardGo,
    /// wireguard-go with its own stack in user space
    WireguardGoNetstack,
}

impl Candidate {
    /// The program, or what to do to have it, and how it tells its version.
    pub(crate) fn program(self, programs: &Programs) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        const DEPS: &str = "scripts/bench-deps.sh intercept";
        match self {
            Self::Direct => Ok((PathBuf::new(), &[])),
            Self::PortForward => Ok((programs.causeway.clone(), &["version"])),
            Self::Link | Self::Wireguard => {
                let own = std::env::current_exe().context("can't find this program's own file")?;
                Ok((own, &["--version"]))
            }
            Self::WireguardGo => Ok((programs.peer("wireguard-go", DEPS)?, &["--version"])),
            Self::WireguardGoNetstack => Ok((programs.peer("wireguard-netstack", DEPS)?, &[])),
        }
    }
}
