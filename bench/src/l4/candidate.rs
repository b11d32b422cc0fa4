//! The proxies that are compared: how each is found, configured and started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::configuration::{self, Splice};
use crate::compare::names::Names;
use crate::compare::programs::Programs;

/// A way to the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Candidate {
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

impl Candidate {
    /// The program, or what to do to have it, and how it tells its version.
    pub(crate) fn program(self, programs: &Programs) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        let (name, version): (_, &'static [&'static str]) = match self {
            Self::Direct => return Ok((PathBuf::new(), &[])),
            Self::Causeway => return Ok((programs.causeway.clone(), &["version"])),
            Self::Envoy => ("envoy", &["--version"]),
            Self::HaproxySplice | Self::HaproxyAuto => ("haproxy", &["-v"]),
            Self::Nginx => ("nginx", &["-v"]),
            Self::Traefik => ("traefik", &["version"]),
        };
        Ok((programs.peer(name, "scripts/bench-deps.sh")?, version))
    }

    /// Writes the configuration into a directory.
    pub(crate) fn configure(self, names: &Names, dir: &Path) -> anyhow::Result<()> {
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
    pub(crate) fn commands(self, program: &Path, dir: &Path) -> Vec<Command> {
        let mut command = Command::new(program);
        match self {
            Self::Direct => return Vec::new(),
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
        vec![command]
    }
}
