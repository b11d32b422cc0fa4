//! A candidate at work: its processes, when it served, its memory, and its end.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::target::Target;
use crate::cpu;

const READY_LIMIT: Duration = Duration::from_secs(90);
const STOP_LIMIT: Duration = Duration::from_secs(4);
const PROBE: Duration = Duration::from_millis(500);
const PROBE_AGAIN: Duration = Duration::from_millis(2);

/// What a probe says when waiting longer would change nothing: the candidate does not do what is asked of it.
#[derive(Debug)]
pub(crate) struct Never(pub(crate) &'static str);

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Never {}

/// A candidate at work; without processes it is the straight way.
pub(crate) struct Running {
    children: Vec<Child>,
    /// Where loads of connections go; none for other loads.
    pub(crate) target: Option<Target>,
    /// From the start until it served.
    pub(crate) ready_after: Duration,
}

impl Running {
    /// Starts the processes and waits until they serve the first and the last name of the target.
    pub(crate) fn start(commands: Vec<Command>, target: Target, dir: &Path) -> anyhow::Result<Self> {
        let probe = || target.probe(0, PROBE).and_then(|()| target.probe(target.len() - 1, PROBE));
        let mut running = Self::start_until(commands, dir, probe)?;
        running.target = Some(target);
        Ok(running)
    }

    /// Starts the processes and waits until a probe succeeds.
    pub(crate) fn start_until(
        commands: Vec<Command>,
        dir: &Path,
        probe: impl Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let log = File::create(dir.join("log"))?;
        let started = Instant::now();
        let mut running = Self { children: Vec::new(), target: None, ready_after: Duration::ZERO };
        for mut command in commands {
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
            let child = command.spawn();
            let child = child.with_context(|| format!("can't start {}", command.get_program().display()))?;
            running.children.push(child);
        }
        let said = || {
            let said = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            said.lines().rev().take(3).collect::<Vec<_>>().join(" / ")
        };
        loop {
            let probed = probe();
            running.ready_after = started.elapsed();
            let Err(error) = probed else { return Ok(running) };
            if error.is::<Never>() {
                return Err(error);
            }
            for child in &mut running.children {
                if let Some(status) = child.try_wait()? {
                    bail!("it ended with {status}: {}", said());
                }
            }
            if running.ready_after > READY_LIMIT {
                bail!("it was not ready in {} s ({error:#}): {}", READY_LIMIT.as_secs(), said());
            }
            std::thread::sleep(PROBE_AGAIN);
        }
    }

    /// The processes that it consists of.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children.iter().flat_map(|child| tree(child.id())).collect()
    }

    /// Resident memory of all its processes, in bytes; pages that they share count once.
    pub(crate) fn memory(&self) -> f64 {
        memory_of(&self.pids())
    }
}

/// Resident memory of processes, in bytes; pages that they share count once.
pub(crate) fn memory_of(pids: &[u32]) -> f64 {
    let all = pids.iter().filter_map(|pid| cpu::memory(*pid).ok());
    match pids.len() {
        0 | 1 => all.map(|(rss, _)| rss).sum(),
        _ => all.map(|(_, pss)| pss).sum(),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &self.children {
            signal(child.id(), Signal::TERM);
        }
        let asked = Instant::now();
        for child in &mut self.children {
            while asked.elapsed() < STOP_LIMIT && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
            if matches!(child.try_wait(), Ok(None)) {
                for pid in tree(child.id()) {
                    signal(pid, Signal::KILL);
                }
            }
            // Ended either way; nothing is left to be done about it.
            let _ = child.wait();
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// A process and its descendants.
pub(super) fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        next += 1;
    }
    found
}
