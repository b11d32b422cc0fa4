//! The two ends of one candidate at work: when they served, what they take, and their end.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::candidate::{Candidate, Programs};
use super::configuration::USERS;
use crate::cpu;
use crate::l4::target::Target;

const READY_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(4);
const PROBE: Duration = Duration::from_millis(500);
const PROBE_AGAIN: Duration = Duration::from_millis(5);

/// Both ends of a tunnel, or none for the straight way.
pub struct Pair {
    ends: Vec<Child>,
    /// From the start until a stream reached the backend.
    pub ready_after: Duration,
}

impl Pair {
    /// Configures and starts both ends and waits until a stream passes.
    pub fn start(
        candidate: Candidate,
        programs: &Programs,
        dead: &[SocketAddr],
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let mut pair = Self { ends: Vec::new(), ready_after: Duration::ZERO };
        let dir = dir.join(candidate.name());
        std::fs::create_dir_all(&dir)?;
        let program = candidate.program(programs)?;
        candidate.configure(&program, dead, &dir)?;
        let log = File::create(dir.join("log"))?;
        let started = Instant::now();
        for mut command in candidate.commands(&program, &dir) {
            let end = command
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log.try_clone()?)
                .spawn()
                .with_context(|| format!("can't start {}", program.display()))?;
            pair.ends.push(end);
        }
        let said = || {
            let said = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            said.lines().rev().take(3).collect::<Vec<_>>().join(" / ")
        };
        loop {
            let probed = pair.target().probe(0, PROBE);
            pair.ready_after = started.elapsed();
            let Err(error) = probed else { return Ok(pair) };
            for end in &mut pair.ends {
                if let Some(status) = end.try_wait()? {
                    bail!("an end of {} ended with {status}: {}", candidate.name(), said());
                }
            }
            if pair.ready_after > READY_LIMIT {
                let limit = READY_LIMIT.as_secs();
                bail!("{} was not ready in {limit} s ({error:#}): {}", candidate.name(), said());
            }
            std::thread::sleep(PROBE_AGAIN);
        }
    }

    /// Where a load goes.
    pub fn target(&self) -> Target {
        Target { proxy: (!self.ends.is_empty()).then_some(USERS), names: None }
    }

    pub fn pids(&self) -> Vec<u32> {
        self.ends.iter().map(Child::id).collect()
    }

    /// Resident memory of both ends, in bytes.
    pub fn memory(&self) -> f64 {
        self.pids().into_iter().filter_map(|pid| cpu::memory(pid).ok()).map(|(resident, _)| resident).sum()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in &self.ends {
            if let Some(pid) = Pid::from_raw(end.id().cast_signed()) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let asked = Instant::now();
        for end in &mut self.ends {
            while asked.elapsed() < STOP_LIMIT && matches!(end.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
            // Ended either way; nothing is left to be done about it.
            let _ = end.kill();
            let _ = end.wait();
        }
    }
}
