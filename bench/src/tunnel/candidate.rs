//! The tunnels that are compared: how each is found, configured and started. Each has two ends, one where users
//! connect and one beside the backends.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::configuration::{self, Setting, Transport, USERS};
use crate::compare::names::PLAIN_BACKEND;
use crate::compare::programs::Programs;

/// A way to the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Candidate {
    /// No tunnel: what the load itself costs.
    Direct,
    /// Mutual TLS 1.3.
    Causeway,
    /// Two relays that copy, with a connection between them for each stream.
    RelayPlain,
    /// The same with TLS 1.3 between them: the strongest simple thing.
    RelayTls,
    /// rathole without encryption.
    RatholePlain,
    RatholeTls,
    RatholeNoise,
}

impl Candidate {
    pub(crate) fn is_relay(self) -> bool {
        matches!(self, Self::RelayPlain | Self::RelayTls)
    }

    /// The program, or what to do to have it, and how it tells its version.
    pub(crate) fn program(self, programs: &Programs) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        match self {
            Self::Direct => Ok((PathBuf::new(), &[])),
            Self::Causeway => Ok((programs.causeway.clone(), &["version"])),
            Self::RelayPlain | Self::RelayTls => {
                let own = std::env::current_exe().context("can't find this program's own file")?;
                Ok((own, &["--version"]))
            }
            Self::RatholePlain | Self::RatholeTls | Self::RatholeNoise => {
                Ok((programs.peer("rathole", "scripts/bench-deps.sh tunnel")?, &["--version"]))
            }
        }
    }

    /// Writes keys and configuration into a directory, and says how to start the end where users connect and the end
    /// beside the backends.
    pub(crate) fn commands(
        self,
        program: &Path,
        setting: &Setting<'_>,
        dir: &Path,
    ) -> anyhow::Result<Vec<Command>> {
        let (mut users, mut backends) = (Command::new(program), Command::new(program));
        match self {
            Self::Direct => return Ok(Vec::new()),
            Self::Causeway => {
                configuration::causeway(program, setting, dir)?;
                users.args(["tunnel", "client", "--identity"]).arg(dir.join("container.pem"));
                users.args(["--control", &configuration::CONTROL.to_string()]);
                users.args(["--data", &configuration::DATA.to_string()]);
                backends.args(["tunnel", "server", "--config"]).arg(dir.join("tunnels.yaml"));
            }
            Self::RelayPlain | Self::RelayTls => {
                users.args(["relay", &USERS.to_string(), &setting.data().to_string()]);
                backends.args(["relay", &configuration::DATA.to_string(), &PLAIN_BACKEND.to_string()]);
                if self == Self::RelayTls {
                    configuration::certificate(dir)?;
                    users.arg("--trust").arg(dir.join("certificate.pem"));
                    backends.arg("--identity").arg(dir.join("certificate.pem"));
                    backends.arg("--key").arg(dir.join("key.pem"));
                }
            }
            Self::RatholePlain | Self::RatholeTls | Self::RatholeNoise => {
                let transport = match self {
                    Self::RatholeTls => Transport::Tls,
                    Self::RatholeNoise => Transport::Noise,
                    _ => Transport::Plain,
                };
                configuration::rathole(program, transport, setting, dir)?;
                users.arg("--server").arg(dir.join("server.toml")).env("RUST_LOG", "error");
                backends.arg("--client").arg(dir.join("client.toml")).env("RUST_LOG", "error");
            }
        }
        Ok(vec![users, backends])
    }
}
