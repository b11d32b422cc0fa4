//! The tunnels that are compared: how each is found, configured and started. Each has two ends, one where users
//! connect and one beside the backends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::configuration::{self, Transport};

/// A way to the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Candidate {
    /// No tunnel: what the load itself costs.
    Direct,
    /// Mutual TLS 1.3.
    Causeway,
    /// rathole without encryption.
    RatholePlain,
    RatholeTls,
    RatholeNoise,
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    pub causeway: PathBuf,
    /// Looked at before the usual places.
    pub peers: PathBuf,
}

impl Candidate {
    pub const ALL: [Self; 5] =
        [Self::Direct, Self::Causeway, Self::RatholePlain, Self::RatholeTls, Self::RatholeNoise];

    pub const PEERS: [Self; 3] = [Self::RatholePlain, Self::RatholeTls, Self::RatholeNoise];

    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Causeway => "causeway",
            Self::RatholePlain => "rathole-plain",
            Self::RatholeTls => "rathole-tls",
            Self::RatholeNoise => "rathole-noise",
        }
    }

    pub fn is_tunnel(self) -> bool {
        self != Self::Direct
    }

    fn transport(self) -> Transport {
        match self {
            Self::RatholeTls => Transport::Tls,
            Self::RatholeNoise => Transport::Noise,
            _ => Transport::Plain,
        }
    }

    /// The program, or what to do to have it.
    pub fn program(self, programs: &Programs) -> anyhow::Result<PathBuf> {
        match self {
            Self::Direct => return Ok(PathBuf::new()),
            Self::Causeway => return Ok(programs.causeway.clone()),
            Self::RatholePlain | Self::RatholeTls | Self::RatholeNoise => {}
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::iter::once(programs.peers.clone())
            .chain(std::env::split_paths(&path))
            .map(|dir| dir.join("rathole"))
            .find(|file| file.is_file())
            .context("rathole is not installed: run scripts/bench-deps.sh tunnel")
    }

    /// Writes keys and configuration into a directory: one tunnel to the backend and one to each dead address.
    pub fn configure(self, program: &Path, dead: &[SocketAddr], dir: &Path) -> anyhow::Result<()> {
        match self {
            Self::Direct => Ok(()),
            Self::Causeway => configuration::causeway(program, dead, dir),
            Self::RatholePlain | Self::RatholeTls | Self::RatholeNoise => {
                configuration::rathole(program, self.transport(), dead, dir)
            }
        }
    }

    /// How to start the end where users connect, and the end beside the backends.
    pub fn commands(self, program: &Path, dir: &Path) -> Vec<Command> {
        let command = || Command::new(program);
        match self {
            Self::Direct => Vec::new(),
            Self::Causeway => {
                let (mut users, mut backends) = (command(), command());
                users.args(["tunnel", "client", "--identity"]).arg(dir.join("container.pem"));
                users.arg("--control").arg(configuration::CONTROL.to_string());
                users.arg("--data").arg(configuration::DATA.to_string());
                backends.args(["tunnel", "server", "--config"]).arg(dir.join("tunnels.yaml"));
                vec![users, backends]
            }
            Self::RatholePlain | Self::RatholeTls | Self::RatholeNoise => {
                let (mut users, mut backends) = (command(), command());
                users.arg("--server").arg(dir.join("server.toml")).env("RUST_LOG", "error");
                backends.arg("--client").arg(dir.join("client.toml")).env("RUST_LOG", "error");
                vec![users, backends]
            }
        }
    }
}
