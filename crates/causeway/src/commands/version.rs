//! `causeway version`.

use std::process::ExitCode;

use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::paint::Paint;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

impl Answer for Version {
    fn text(&self, _: Paint) -> String {
        format!("causeway {}", self.version)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.format.print(&Version { version: env!("CARGO_PKG_VERSION") })?;
    Ok(ExitCode::SUCCESS)
}
