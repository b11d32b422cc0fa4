//! A plan in a file: read, checked, and read again when it changes or on SIGHUP. A bad file is refused with its
//! problems, each with its line, and the last good plan stays in use.

mod lines;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use causeway_ir::{Plan, Problem};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Interval;

use self::lines::Lines;
use super::termination::Termination;

/// How often the file's time and size are compared.
const LOOK: Duration = Duration::from_secs(1);

/// Reads a plan, which may not be valid.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    parse(path, &text(path)?)
}

/// Reads a plan and prints what is wrong with it; `None` if it can't be run. `problems` finds what is wrong for the
/// program that is to run it.
pub(crate) fn read_valid(
    path: &Path,
    problems: impl Fn(&Plan) -> Vec<Problem>,
) -> anyhow::Result<Option<Plan>> {
    read_valid_after(path, &Plan::default(), problems)
}

/// The same, quicker if little differs from a good plan.
fn read_valid_after(
    path: &Path,
    good: &Plan,
    problems: impl Fn(&Plan) -> Vec<Problem>,
) -> anyhow::Result<Option<Plan>> {
    let text = text(path)?;
    let plan = parse(path, &text)?;
    let mut found = plan.validate_after(good);
    if found.is_empty() {
        found = problems(&plan);
    }
    print_problems("warning", path, &text, &plan.warnings());
    print_problems("error", path, &text, &found);
    Ok(found.is_empty().then_some(plan))
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("can't read the plan {}", path.display()))
}

fn parse(path: &Path, text: &str) -> anyhow::Result<Plan> {
    let plan: Option<Plan> = serde_saphyr::from_str_with_options(text, options())
        .with_context(|| format!("{} is not a plan", path.display()))?;
    // Also what an editor leaves for a moment while it writes: it must not take all listeners away.
    plan.with_context(|| {
        format!(
            "{} is empty, which is not a plan: write at least one listener and its cluster, or {{}} for a plan that \
             does nothing",
            path.display()
        )
    })
}

fn options() -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    // The parser's budget is for documents of strangers; a plan of 100,000 routes is beyond it.
    options.budget = None;
    options
}

fn print_problems(kind: &str, path: &Path, text: &str, problems: &[Problem]) {
    if problems.is_empty() {
        return;
    }
    let lines = Lines::of(text);
    for problem in problems {
        let line = lines.line(&problem.path).map_or_else(String::new, |line| format!(":{line}"));
        eprintln!("{kind}: {}{line}: {problem}", path.display());
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

    /// The good plan that follows the one that runs, or `None` when the process is to end. `problems` are as in
    /// [`read_valid`].
    ///
    /// # Cancellation
    /// May be dropped and called again: no change is missed.
    pub(crate) async fn next(
        &mut self,
        runs: &Plan,
        problems: impl Fn(&Plan) -> Vec<Problem>,
    ) -> Option<Plan> {
        while self.changed().await {
            match read_valid_after(&self.path, runs, &problems) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        format!("{:#}", parse(Path::new("plan.yaml"), text).unwrap_err())
    }

    #[test]
    fn an_empty_file_is_not_a_plan() {
        for text in ["", "\n\n", "# nothing yet\n", "---\n", "---\n# nothing\n...\n", "null", "~"] {
            assert!(refusal(text).contains("plan.yaml is empty, which is not a plan"), "{text:?}");
        }
        for text in ["[]", "a plan"] {
            assert!(refusal(text).contains("is not a plan"), "{text:?}");
        }
        assert_eq!(parse(Path::new("plan.yaml"), "{}").unwrap(), Plan::default());
    }

    #[test]
    fn what_can_not_be_read_is_named_with_its_line() {
        for (text, parts) in [
            ("listeners:\n- name: a\n  bnd: 127.0.0.1:1\n", ["line 3", "bnd"]),
            ("listeners:\n- name: a\n  bind: localhost\n", ["line 3", "bind"]),
            (
                "listeners:\n- {name: a, bind: '127.0.0.1:1',\n  protocol: {tcp: {name: r, action: {send: c}}}}\n",
                ["line 3", "send"],
            ),
            ("clusters:\n- name: a\n  endpoints:\n  - address: nowhere\n", ["line 4", "address"]),
            ("clusters:\n- name: a\n  idleTimeout: 5\n", ["line 3", "idleTimeout"]),
            ("clusters:\n- {}\n", ["line 2", "name"]),
        ] {
            let message = refusal(text);
            assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
        }
    }
}
