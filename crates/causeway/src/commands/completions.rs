//! `causeway completions`: a script that teaches a shell our commands.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::parts::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to write for.
    shell: Shell,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::Cli::command(), "causeway", &mut script);
    Output::Stdout.write(&script);
    Ok(ExitCode::SUCCESS)
}
