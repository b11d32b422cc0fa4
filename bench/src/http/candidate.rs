//! The gateways that are compared: how each is found, configured and started, on one core and with one worker.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::configuration::{causeway, envoy, haproxy, nginx, traefik};
use super::setting::Setting;
use crate::compare::programs::Programs;

/// The core of the gateway; load and backend share the other.
const GATEWAY_CORE: usize = 0;

/// A way to the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Candidate {
    /// No gateway: what load and backend cost together.
    Direct,
    Causeway,
    Nginx,
    Haproxy,
    Envoy,
    Traefik,
}

impl Candidate {
    /// The program, or what to do to have it, and how it tells its version.
    pub(crate) fn program(self, programs: &Programs) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        let (name, version): (_, &'static [&'static str]) = match self {
            Self::Direct => return Ok((PathBuf::new(), &[])),
            Self::Causeway => return Ok((programs.causeway.clone(), &["version"])),
            Self::Nginx => ("nginx", &["-v"]),
            Self::Haproxy => ("haproxy", &["-v"]),
            Self::Envoy => ("envoy", &["--version"]),
            Self::Traefik => ("traefik", &["version"]),
        };
        Ok((programs.peer(name, "scripts/bench-deps.sh http")?, version))
    }

    /// Writes the configuration into a directory; certificates are in another.
    pub(crate) fn configure(self, setting: &Setting, dir: &Path, certificates: &Path) -> anyhow::Result<()> {
        let files = match self {
            Self::Direct => Vec::new(),
            Self::Causeway => causeway::files(setting),
            Self::Nginx => nginx::files(setting, dir, certificates),
            Self::Haproxy => haproxy::files(setting, dir, certificates),
            Self::Envoy => envoy::files(setting, dir, certificates),
            Self::Traefik => traefik::files(setting, dir, certificates),
        };
        for (name, text) in files {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        }
        Ok(())
    }

    /// Tells a running one that a certificate is another, in its own way.
    pub(crate) fn tell(self, pids: &[u32], dir: &Path, certificate: &Path) -> anyhow::Result<()> {
        match self {
            // These look by themselves.
            Self::Direct | Self::Causeway | Self::Envoy => Ok(()),
            Self::Nginx => nginx::reload(pids),
            Self::Haproxy => haproxy::replace(dir, certificate),
            Self::Traefik => traefik::reload(dir),
        }
    }

    /// How to start it in the foreground.
    pub(crate) fn commands(
        self,
        program: &Path,
        setting: &Setting,
        dir: &Path,
        certificates: &Path,
    ) -> Vec<Command> {
        let mut command = Command::new("taskset");
        command.args(["-c", &GATEWAY_CORE.to_string()]).arg(program);
        match self {
            Self::Direct => return Vec::new(),
            Self::Causeway => {
                command.args(["engine", "--workers", "1", "--config"]).arg(dir.join(causeway::FILE));
                if setting.has_tls() {
                    command.arg("--certificates").arg(certificates);
                }
            }
            Self::Nginx => {
                command.arg("-p").arg(dir).arg("-c").arg(dir.join(nginx::FILE));
            }
            Self::Haproxy => {
                command.args(["-db", "-f"]).arg(dir.join(haproxy::FILE));
            }
            Self::Envoy => {
                command.arg("-c").arg(dir.join(envoy::FILE));
                command.args(["--concurrency", "1", "--log-level", "error", "--disable-hot-restart"]);
            }
            Self::Traefik => {
                command.env("GOMAXPROCS", "1");
                command.arg(format!("--configfile={}", dir.join(traefik::FILE).display()));
            }
        }
        vec![command]
    }
}
