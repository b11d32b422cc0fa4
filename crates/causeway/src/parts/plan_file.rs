//! A plan in a file: read, checked, and read again when it changes or on SIGHUP. A bad file is refused with its
//! problems, each with its line, and the last good plan stays in use.

mod lines;
mod shape;
mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use causeway_ir::{Plan, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Interval;

pub(crate) use self::lines::Lines;
pub(crate) use self::shape::{options, parse};
pub(crate) use self::text::{Stamp, of_file, stamp};
use super::output;
use super::termination::Termination;

/// How often it is looked whether the file is another.
const LOOK: Duration = Duration::from_millis(500);

/// Reads a plan, which may not be valid.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    plan(path, &text::of_file_or_pipe(path)?)
}

/// A plan that was read, and what is to be said of it.
pub(crate) struct Checked {
    pub(crate) plan: Plan,
    pub(crate) problems: Vec<Located>,
}

/// A problem and its place in the file.
#[derive(Debug, Serialize)]
pub(crate) struct Located {
    severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    path: String,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Warning,
    Error,
}

impl Checked {
    /// Whether it can be run.
    pub(crate) fn is_valid(&self) -> bool {
        is_valid(&self.problems)
    }

    /// Prints the problems, each with its place.
    pub(crate) fn print(&self, path: &Path) {
        print(path, &self.problems);
    }
}

/// Whether a plan with these problems can be run.
pub(crate) fn is_valid(problems: &[Located]) -> bool {
    problems.iter().all(|problem| problem.severity == Severity::Warning)
}

/// Prints the problems of a file, each with its place.
pub(crate) fn print(path: &Path, problems: &[Located]) {
    for Located { severity, line, path: field, message } in problems {
        let severity = match severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        output::note(format_args!("{severity}: {}{line}: {field}: {message}", path.display()));
    }
}

/// Reads a plan of any kind and what is to be said of it: `look` finds errors and warnings, `least` is what the plan of an
/// empty file lacks.
///
/// # Errors
/// When it is not a plan at all.
pub(crate) fn check_text<P: DeserializeOwned>(
    path: &Path,
    text: &str,
    least: &str,
    look: impl Fn(&P) -> (Vec<Problem>, Vec<Problem>),
) -> anyhow::Result<(P, Vec<Located>)> {
    let plan = parse(path, text)?
        .with_context(|| format!("{} is empty, which is not a plan: write {least}", path.display()))?;
    let (errors, warnings) = look(&plan);
    Ok((plan, locate(text, &errors, &warnings)))
}

/// Reads a plan and finds out whether it can be run. `problems` finds what is wrong for the program that is to run it.
///
/// # Errors
/// When it is not a plan at all.
pub(crate) fn check(path: &Path, problems: impl Fn(&Plan) -> Vec<Problem>) -> anyhow::Result<Checked> {
    check_after(path, &text::of_file_or_pipe(path)?, &Plan::default(), problems)
}

/// Reads a plan and prints what is wrong with it; `None` if it can't be run. `problems` are as in [`check`].
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
    let checked = check_after(path, &of_file(path)?, good, problems)?;
    checked.print(path);
    Ok(checked.is_valid().then_some(checked.plan))
}

fn check_after(
    path: &Path,
    text: &str,
    good: &Plan,
    problems: impl Fn(&Plan) -> Vec<Problem>,
) -> anyhow::Result<Checked> {
    let plan = plan(path, text)?;
    let mut errors = plan.validate_after(good);
    if errors.is_empty() {
        errors = problems(&plan);
    }
    Ok(Checked { problems: locate(text, &errors, &plan.warnings()), plan })
}

/// The problems with their places in the file, warnings first.
fn locate(text: &str, errors: &[Problem], warnings: &[Problem]) -> Vec<Located> {
    let all = warnings.iter().map(|problem| (Severity::Warning, problem));
    let all: Vec<_> = all.chain(errors.iter().map(|problem| (Severity::Error, problem))).collect();
    // A large file is looked through once more only for a reason.
    let lines = (!all.is_empty()).then(|| Lines::of(text));
    let located = |(severity, problem): (Severity, &Problem)| Located {
        severity,
        line: lines.as_ref().and_then(|lines| lines.line(&problem.path)),
        path: problem.path.clone(),
        message: problem.message.clone(),
    };
    all.into_iter().map(located).collect()
}

fn plan(path: &Path, text: &str) -> anyhow::Result<Plan> {
    // Also what an editor leaves for a moment while it writes: it must not take all listeners away.
    parse(path, text)?.with_context(|| {
        format!(
            "{} is empty, which is not a plan: write at least one listener and its cluster, or {{}} for a plan that \
             does nothing",
            path.display()
        )
    })
}

/// Follows a plan file until the process is asked to end.
pub(crate) struct Follower {
    path: PathBuf,
    seen: Option<Stamp>,
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
                Ok(None) => output::note("causeway: the new plan is refused; the last one runs on"),
                Err(error) => output::note(format_args!(
                    "causeway: the new plan is refused; the last one runs on: {error:#}"
                )),
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

#[cfg(test)]
mod tests;
