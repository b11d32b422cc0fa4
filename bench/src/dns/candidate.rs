//! The servers that are compared: how each is found, configured and started, on one core and with one thread.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{SERVER_CORE, configuration};
use crate::compare::programs::Programs;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Candidate {
    /// Says back what it hears: what any server costs at least.
    Echo,
    Causeway,
    Knot,
    Bind,
    Unbound,
    Dnsmasq,
    Coredns,
}

impl Candidate {
    /// The program, or what to do to have it, and how it tells its version.
    pub(crate) fn program(self, programs: &Programs) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        let (name, version): (_, &'static [&'static str]) = match self {
            Self::Echo => {
                let own = std::env::current_exe().context("can't find this program's own file")?;
                return Ok((own, &[]));
            }
            Self::Causeway => return Ok((programs.causeway.clone(), &["version"])),
            Self::Knot => ("knotd", &["--version"]),
            Self::Bind => ("named", &["-v"]),
            Self::Unbound => ("unbound", &["-V"]),
            Self::Dnsmasq => ("dnsmasq", &["--version"]),
            Self::Coredns => ("coredns", &["-version"]),
        };
        Ok((programs.peer(name, "scripts/bench-deps.sh dns")?, version))
    }

    /// Writes the configuration into a directory.
    pub(crate) fn configure(self, dir: &Path) -> anyhow::Result<()> {
        let files = match self {
            Self::Echo => Vec::new(),
            Self::Causeway => configuration::causeway(),
            Self::Knot => configuration::knot(dir),
            Self::Bind => configuration::bind(dir),
            Self::Unbound => configuration::unbound(dir),
            Self::Dnsmasq => configuration::dnsmasq(dir),
            Self::Coredns => configuration::coredns(dir),
        };
        for (name, text) in files {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        }
        Ok(())
    }

    /// How to start it in the foreground.
    pub(crate) fn command(self, program: &Path, dir: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &SERVER_CORE.to_string()]).arg(program);
        match self {
            Self::Echo => command.arg("echo"),
            Self::Causeway => command.args(["dns", "--workers", "1", "--config"]).arg(dir.join("plan.json")),
            Self::Knot => command.arg("-c").arg(dir.join("knot.conf")),
            Self::Bind => command.args(["-f", "-n", "1", "-c"]).arg(dir.join("named.conf")),
            Self::Unbound => command.args(["-d", "-c"]).arg(dir.join("unbound.conf")),
            Self::Dnsmasq => {
                command.arg("-k").arg(format!("--conf-file={}", dir.join("dnsmasq.conf").display()))
            }
            Self::Coredns => command.env("GOMAXPROCS", "1").arg("-conf").arg(dir.join("Corefile")),
        };
        command
    }
}
