//! `causeway demo`: plays a crossing on this machine with no set-up, each step shown and checked. It ends with an
//! error if a step did not do what it says.

mod cluster;
mod control_plane;
mod proxy;
mod story;
mod tunnel;

#[derive(Debug, clap::Args)]
pub struct Args {
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

pub async fn run(args: Args) -> anyhow::Result<()> {
    match args.crossing {
        Crossing::Proxy(args) => proxy::run(args).await,
        Crossing::Tunnel(args) => tunnel::run(args).await,
    }
}
