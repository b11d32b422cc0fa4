//! `causeway demo`: plays a crossing on this machine with no set-up, each step shown and checked. It ends with an
//! error if a step did not do what it says.

mod child;
mod cluster;
mod control_plane;
mod proxy;
mod steps;
mod tunnel;

use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    crossing: Crossing,
}

#[derive(Debug, clap::Subcommand)]
enum Crossing {
    /// TLS services behind one address, told apart by name, and a change while connections are open.
    Proxy(proxy::Args),
    /// A container reaches a service of the host by name, and goes on when the tunnel's container is killed.
    Tunnel(tunnel::Args),
}

/// What every demo offers.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Leave everything running at the end, to look around, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Print the resources before they are applied.
    #[arg(long)]
    show: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.crossing {
        Crossing::Proxy(args) => proxy::run(args).await?,
        Crossing::Tunnel(args) => tunnel::run(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
