//! A plan in a file: read, checked, and read again when it changes or on SIGHUP. A bad file is refused with its
//! problems, and the last good plan stays in use.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use causeway_ir::{Plan, Problem};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Interval;

use super::termination::Termination;

/// How often the file's time and size are compared.
const LOOK: Duration = Duration::from_secs(1);

/// Reads a plan, which may not be valid.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("can't read the plan {}", path.display()))?;
    // The parser's budget is for documents of strangers; a plan of 100,000 routes is beyond it.
    let mut options = serde_saphyr::Options::default();
    options.budget = None;
    serde_saphyr::from_str_with_options(&text, options)
        .with_context(|| format!("{} is not a plan", path.display()))
}

/// Reads a plan and prints what is wrong with it; `None` if it can't be run.
pub(crate) fn read_valid(path: &Path) -> anyhow::Result<Option<Plan>> {
    read_valid_after(path, &Plan::default())
}

/// The same, quicker if little differs from a good plan.
fn read_valid_after(path: &Path, good: &Plan) -> anyhow::Result<Option<Plan>> {
    let plan = read(path)?;
    let problems = plan.validate_after(good);
    print_problems("warning", path, &plan.warnings());
    print_problems("error", path, &problems);
    Ok(problems.is_empty().then_some(plan))
}

fn print_problems(kind: &str, path: &Path, problems: &[Problem]) {
    for problem in problems {
        eprintln!("{kind}: {}: {problem}", path.display());
    }
}

/// Follows a plan file until the process is asked to end.
pub(crate) struct Follower {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
    look: Interval,
    hangup: Signal,
    termination: Termination,
}

impl Follower {
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            seen: stamp(path),
            look: tokio::time::interval(LOOK),
            hangup: signal(SignalKind::hangup())?,
            termination: Termination::listen()?,
        })
    }

    /// The good plan that follows the one that runs, or `None` when the process is to end.
    ///
    /// # Cancellation
    /// May be dropped and called again.
    pub(crate) async fn next(&mut self, runs: &Plan) -> Option<Plan> {
        while self.changed().await {
            match read_valid_after(&self.path, runs) {
                Ok(Some(plan)) => return Some(plan),
                Ok(None) => eprintln!("causeway: the new plan is refused; the last one runs on"),
                Err(error) => eprintln!("causeway: the new plan is refused; the last one runs on: {error:#}"),
            }
        }
        None
    }

    /// Waits for a change of the file, or for being told to read it again; false when the process is to end.
    pub(crate) async fn changed(&mut self) -> bool {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => self.seen = stamp(&self.path),
                _ = self.look.tick() => {
                    let now = stamp(&self.path);
                    // A file that is gone for a moment is being replaced.
                    if now.is_none() || now == self.seen {
                        continue;
                    }
                    self.seen = now;
                }
                () = self.termination.asked() => return false,
            }
            return true;
        }
    }
}

/// Tells two states of the file apart: by time, and by size since a replaced file may have the same time.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
