//! `causeway completions`: a script that teaches a shell our commands.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to write for.
    shell: Shell,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, &mut crate::cli::Cli::command(), "causeway", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
