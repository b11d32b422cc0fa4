//! `causeway tunnel`: the two ends of a link by hand, without Kubernetes, and the keys for them. The operator runs the
//! same client in its containers and `tunnel host` as a process for each tunnel proxy.

mod client;
mod host;
mod keys;
mod plan;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::parts::answer::FormatArg;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

impl Args {
    /// Whether it is the process of a tunnel proxy.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self.command, Command::Host(_))
    }
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make the keys of a pair: DIR/authority.pem for the server, DIR/container.pem for the client.
    Keys {
        /// Where to put them.
        dir: PathBuf,
        #[command(flatten)]
        format: FormatArg,
    },
    /// The client end: waits for the server and listens where the server says.
    Client(client::Args),
    /// The end on the host: connects to the client and carries its streams to services of the host.
    Server(server::Args),
    /// The end on the host as the operator runs it, one for each tunnel proxy.
    #[command(hide = true)]
    Host(host::Args),
    /// A fresh DIR/container.pem of the authority in DIR, which is made if there is none; for the operator.
    #[command(hide = true)]
    Identity {
        /// Where the authority is.
        dir: PathBuf,
    },
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Keys { dir, format } => format.print(&keys::make_pair(&dir)?)?,
        Command::Client(args) => client::run(args).await?,
        Command::Server(args) => server::run(args).await?,
        Command::Host(args) => host::run(args).await?,
        Command::Identity { dir } => keys::issue_identity(&dir)?,
    }
    Ok(ExitCode::SUCCESS)
}
