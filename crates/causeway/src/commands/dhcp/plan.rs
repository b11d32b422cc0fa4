//! The plan of a DHCP server, in a file: read and checked.

use std::path::Path;
use std::process::ExitCode;

use causeway_ir::dhcp::DhcpPlan;
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::output;
use crate::parts::paint::Paint;
use crate::parts::plan_file::{self, Located};

/// Reads a plan and prints what is wrong with it; `None` if it can't be run.
///
/// # Errors
/// When it is not a plan at all.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<DhcpPlan>> {
    let (plan, problems) = read_with_problems(path)?;
    plan_file::print(path, &problems);
    Ok(plan_file::is_valid(&problems).then_some(plan))
}

fn read_with_problems(path: &Path) -> anyhow::Result<(DhcpPlan, Vec<Located>)> {
    let least = "at least interface, server, network and pool";
    plan_file::check_text(path, &plan_file::of_file(path)?, least, |plan: &DhcpPlan| {
        (plan.validate(), Vec::new())
    })
}

/// The answer of `--check`.
#[derive(Default, Serialize)]
struct Check {
    config: String,
    valid: bool,
    networks: usize,
    reservations: usize,
    problems: Vec<Located>,
    /// Why it is not a plan at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Answer for Check {
    fn text(&self, _: Paint) -> String {
        format!("{} is fine: {} networks, {} reservations", self.config, self.networks, self.reservations)
    }
}

/// Says whether a plan could be run.
///
/// # Errors
/// When it is not a plan at all and people ask.
pub(super) fn check(path: &Path, format: FormatArg) -> anyhow::Result<ExitCode> {
    let config = path.display().to_string();
    let check = match read_with_problems(path) {
        Ok((plan, problems)) => Check {
            config,
            valid: plan_file::is_valid(&problems),
            networks: plan.networks().count(),
            reservations: plan.reservations.len(),
            problems,
            error: None,
        },
        Err(error) if format.is_json() => {
            Check { config, error: Some(format!("{error:#}")), ..Check::default() }
        }
        Err(error) => return Err(error),
    };
    if check.valid || format.is_json() {
        format.print(&check)?;
    } else {
        plan_file::print(path, &check.problems);
        output::note(format_args!("causeway: {} can't be run", check.config));
    }
    Ok(if check.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
