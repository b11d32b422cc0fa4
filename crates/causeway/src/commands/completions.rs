//! `causeway completions`: a script that teaches a shell our commands.

use clap::CommandFactory;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell to write for.
    shell: Shell,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    clap_complete::generate(args.shell, &mut crate::cli::Cli::command(), "causeway", &mut std::io::stdout());
    Ok(())
}
