//! The servers that are measured: how each is told the same, and how it runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::load::Load;
use super::network::{INTERFACE, NETWORK, Network, POOL, SERVER, inside};

const READY_LIMIT: Duration = Duration::from_secs(20);
/// The processor of the server; the load has the next one.
const PROCESSOR: usize = 0;

/// A server and its program.
pub(super) enum Candidate {
    Causeway(PathBuf),
    Kea(PathBuf),
}

impl Candidate {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Causeway(_) => "causeway",
            Self::Kea(_) => "kea",
        }
    }

    /// Nobody is looked for before an offer, by either.
    fn configuration(&self, dir: &Path) -> String {
        let (first, last) = POOL;
        match self {
            Self::Causeway(_) => format!(
                "interface: {INTERFACE}\nserver: {SERVER}\nnetwork: {NETWORK}\nprobe: 0s\n\
                 pool: {{first: {first}, last: {last}}}\n"
            ),
            Self::Kea(_) => format!(
                r#"{{"Dhcp4": {{
                    "interfaces-config": {{"interfaces": ["{INTERFACE}"], "dhcp-socket-type": "udp"}},
                    "lease-database": {{"type": "memfile", "persist": true, "lfc-interval": 0, "name": "{dir}/leases.csv"}},
                    "multi-threading": {{"enable-multi-threading": false}},
                    "valid-lifetime": 3600,
                    "subnet4": [{{"subnet": "{NETWORK}", "pools": [{{"pool": "{first} - {last}"}}]}}],
                    "loggers": [{{"name": "kea-dhcp4", "severity": "ERROR", "output_options": [{{"output": "{dir}/kea.log"}}]}}]
                }}}}"#,
                dir = dir.display()
            ),
        }
    }
}

/// A server at work; ended when it is dropped.
pub(super) struct Running(Child);

impl Running {
    /// Starts with no leases in a directory that is made anew, and waits until it answers.
    pub(super) fn start(candidate: &Candidate, network: &Network, dir: &Path) -> anyhow::Result<Self> {
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join("configuration"), candidate.configuration(dir))?;
        let log = File::create(dir.join("log"))?;
        let mut command = inside(&network.server, PROCESSOR);
        match candidate {
            Candidate::Causeway(program) => {
                command.arg(program).args(["dhcp", "--config", "configuration", "--leases", "leases"])
            }
            Candidate::Kea(program) => command.arg(program).args(["-c", "configuration"]),
        };
        command.current_dir(dir).env("KEA_PIDFILE_DIR", dir).env("KEA_LOCKFILE_DIR", "none");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut running = Self(command.spawn().context("can't start `ip` (package iproute2)")?);
        let (started, load) = (Instant::now(), Load::open(network)?);
        while !load.is_answered()? {
            let said = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            if let Some(status) = running.0.try_wait()? {
                bail!("it ended with {status}: {}", said());
            }
            if started.elapsed() > READY_LIMIT {
                bail!("it answered nothing in {} s: {}", READY_LIMIT.as_secs(), said());
            }
        }
        Ok(running)
    }

    /// Its process, which `ip` and `taskset` have become.
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
