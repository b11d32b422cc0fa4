//! One candidate that runs: its processes, when it was ready, its memory, and its end.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::candidate::{Candidate, Programs};
use super::configuration::{PLAIN, SNI};
use super::names::Names;
use super::target::Target;
use crate::cpu;

const STOP_LIMIT: Duration = Duration::from_secs(4);
const PROBE: Duration = Duration::from_millis(500);
const PROBE_AGAIN: Duration = Duration::from_millis(2);

/// A candidate at work.
pub struct Proxy {
    child: Option<Child>,
    names: Rc<Names>,
    /// From its start until the first and the last name were served.
    pub ready_after: Duration,
}

impl Proxy {
    /// Configures and starts a candidate and waits until it serves.
    pub fn start(
        candidate: Candidate,
        programs: &Programs,
        names: Rc<Names>,
        dir: &Path,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let mut proxy = Self { child: None, names, ready_after: Duration::ZERO };
        if !candidate.is_proxy() {
            return Ok(proxy);
        }
        let dir = dir.join(candidate.name());
        std::fs::create_dir_all(&dir)?;
        candidate.configure(&proxy.names, &dir)?;
        let program = candidate.program(programs)?;
        let log = File::create(dir.join("log"))?;
        let started = Instant::now();
        let child = candidate
            .command(&program, &dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("can't start {}", program.display()))?;
        proxy.child = Some(child);
        let said = || {
            let said = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            said.lines().rev().take(3).collect::<Vec<_>>().join(" / ")
        };
        let target = proxy.target(true);
        let last = target.len() - 1;
        loop {
            let probed = target.probe(0, PROBE).and_then(|()| target.probe(last, PROBE));
            proxy.ready_after = started.elapsed();
            let Err(error) = probed else { return Ok(proxy) };
            if let Some(child) = &mut proxy.child
                && let Some(status) = child.try_wait()?
            {
                bail!("{} ended with {status}: {}", candidate.name(), said());
            }
            if proxy.ready_after > patience {
                bail!(
                    "{} was not ready in {} s ({error:#}): {}",
                    candidate.name(),
                    patience.as_secs(),
                    said()
                );
            }
            std::thread::sleep(PROBE_AGAIN);
        }
    }

    pub fn target(&self, by_name: bool) -> Target {
        let at = if by_name { SNI } else { PLAIN };
        Target { proxy: self.child.as_ref().map(|_| at), names: by_name.then(|| Rc::clone(&self.names)) }
    }

    /// The processes that it consists of.
    pub fn pids(&self) -> Vec<u32> {
        self.child.as_ref().map_or_else(Vec::new, |child| tree(child.id()))
    }

    /// Resident memory of all its processes, in bytes; pages that they share count once.
    pub fn memory(&self) -> f64 {
        let pids = self.pids();
        let all = pids.iter().filter_map(|pid| cpu::memory(*pid).ok());
        match pids.len() {
            0 | 1 => all.map(|(rss, _)| rss).sum(),
            _ => all.map(|(_, pss)| pss).sum(),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let pids = tree(child.id());
        signal(child.id(), Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < STOP_LIMIT && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if matches!(child.try_wait(), Ok(None)) {
            for pid in pids {
                signal(pid, Signal::KILL);
            }
        }
        // Ended either way; nothing is left to be done about it.
        let _ = child.wait();
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// A process and its descendants.
fn tree(root: u32) -> Vec<u32> {
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
