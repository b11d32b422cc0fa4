//! `--check`: whether a plan file could be run by the program that it is for.

use std::path::Path;
use std::process::ExitCode;

use causeway_ir::{Plan, Problem};
use serde::Serialize;

use super::answer::{Answer, FormatArg};
use super::output;
use super::paint::Paint;
use super::plan_file::{self, Located};

/// The answer.
#[derive(Default, Serialize)]
struct Check {
    config: String,
    valid: bool,
    listeners: usize,
    clusters: usize,
    problems: Vec<Located>,
    /// What the program does otherwise than the plan may lead to expect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Why it is not a plan at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Answer for Check {
    fn text(&self, _: Paint) -> String {
        format!("{} is fine: {} listeners, {} clusters", self.config, self.listeners, self.clusters)
    }
}

/// Checks a plan: `problems` finds what is wrong with it for the program, `notes` what is to be said of one that is right,
/// and `can_not` says what can't be done with one that is wrong.
///
/// # Errors
/// When it is not a plan at all and people ask.
pub(crate) fn run(
    config: &Path,
    format: FormatArg,
    problems: impl Fn(&Plan) -> Vec<Problem>,
    notes: impl Fn(&Plan) -> Vec<String>,
    can_not: &str,
) -> anyhow::Result<ExitCode> {
    let shown = config.display().to_string();
    let check = match plan_file::check(config, problems) {
        Ok(checked) => {
            if !format.is_json() {
                checked.print(config);
            }
            let valid = checked.is_valid();
            Check {
                config: shown,
                valid,
                listeners: checked.plan.listeners.len(),
                clusters: checked.plan.clusters.len(),
                notes: if valid { notes(&checked.plan) } else { Vec::new() },
                problems: checked.problems,
                error: None,
            }
        }
        Err(error) if format.is_json() => {
            Check { config: shown, error: Some(format!("{error:#}")), ..Check::default() }
        }
        Err(error) => return Err(error),
    };
    if !format.is_json() {
        if !check.valid {
            output::note(format_args!("causeway: {} {can_not}", check.config));
            return Ok(ExitCode::FAILURE);
        }
        for note in &check.notes {
            output::note(format_args!("note: {note}"));
        }
    }
    format.print(&check)?;
    Ok(if check.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is wrong with a plan, in one line.
pub(crate) fn in_words(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
