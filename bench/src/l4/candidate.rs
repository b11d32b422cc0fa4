//! The proxies that are compared: how each is found, configured and started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::configuration::{self, Splice};
use super::names::Names;

/// A way to the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Candidate {
    /// No proxy: what the load itself costs.
    Direct,
    Causeway,
    Envoy,
    /// HAProxy with splice forced both ways and pipes as large as ours.
    HaproxySplice,
    /// HAProxy that decides by itself when to splice.
    HaproxyAuto,
    Nginx,
    Traefik,
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    pub causeway: PathBuf,
    /// Looked at before the usual places.
    pub peers: PathBuf,
}

impl Candidate {
    pub const ALL: [Self; 7] = [
        Self::Direct,
        Self::Causeway,
        Self::Envoy,
        Self::HaproxySplice,
        Self::HaproxyAuto,
        Self::Nginx,
        Self::Traefik,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Causeway => "causeway",
            Self::Envoy => "envoy",
            Self::HaproxySplice => "haproxy-splice",
            Self::HaproxyAuto => "haproxy-auto",
            Self::Nginx => "nginx",
            Self::Traefik => "traefik",
        }
    }

    pub fn is_proxy(self) -> bool {
        self != Self::Direct
    }

    /// Whether it is one of those we compare ourselves with.
    pub fn is_peer(self) -> bool {
        self.is_proxy() && self != Self::Causeway
    }

    /// The program, or what to do to have it.
    pub fn program(self, programs: &Programs) -> anyhow::Result<PathBuf> {
        let name = match self {
            Self::Direct => return Ok(PathBuf::new()),
            Self::Causeway => return Ok(programs.causeway.clone()),
            Self::Envoy => "envoy",
            Self::HaproxySplice | Self::HaproxyAuto => "haproxy",
            Self::Nginx => "nginx",
            Self::Traefik => "traefik",
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
        std::iter::once(programs.peers.clone())
            .chain(std::env::split_paths(&path))
            .chain(usual)
            .map(|dir| dir.join(name))
            .find(|file| file.is_file())
            .with_context(|| format!("{name} is not installed: run scripts/bench-deps.sh"))
    }

    /// Its version, in its own words.
    pub fn version(self, program: &Path) -> String {
        let argument = match self {
            Self::Direct => return String::new(),
            Self::Causeway | Self::Traefik => "version",
            Self::Envoy => "--version",
            Self::HaproxySplice | Self::HaproxyAuto | Self::Nginx => "-v",
        };
        let Ok(output) = Command::new(program).arg(argument).output() else { return String::new() };
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }

    /// Writes the configuration into a directory.
    pub fn configure(self, names: &Names, dir: &Path) -> anyhow::Result<()> {
        let files = match self {
            Self::Direct => Vec::new(),
            Self::Causeway => configuration::causeway(names)?,
            Self::Envoy => configuration::envoy(names),
            Self::HaproxySplice => configuration::haproxy(names, Splice::Forced, dir),
            Self::HaproxyAuto => configuration::haproxy(names, Splice::Auto, dir),
            Self::Nginx => configuration::nginx(names, dir),
            Self::Traefik => configuration::traefik(names, dir),
        };
        for (name, text) in files {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        }
        Ok(())
    }

    /// How to start it in the foreground; two threads each.
    pub fn command(self, program: &Path, dir: &Path) -> Command {
        let mut command = Command::new(program);
        match self {
            Self::Direct => {}
            Self::Causeway => {
                command.arg("engine").arg("--config").arg(dir.join("plan.json")).args(["--workers", "2"]);
            }
            Self::Envoy => {
                command.arg("-c").arg(dir.join("envoy.yaml"));
                command.args(["--concurrency", "2", "--log-level", "error", "--disable-hot-restart"]);
            }
            Self::HaproxySplice | Self::HaproxyAuto => {
                command.args(["-db", "-f"]).arg(dir.join("haproxy.cfg"));
            }
            Self::Nginx => {
                command.arg("-p").arg(dir).arg("-c").arg(dir.join("nginx.conf"));
            }
            Self::Traefik => {
                command.arg(format!("--configfile={}", dir.join("traefik.yml").display()));
            }
        }
        command
    }
}
