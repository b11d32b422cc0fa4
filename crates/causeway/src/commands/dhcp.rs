//! `causeway dhcp`: a DHCP server by plan file, without Kubernetes, or as a pod of a `DHCPServer`. The file is read again when
//! it changes or on SIGHUP; a bad one is refused with its problems and the last good plan runs on.

mod admin;
mod follow;
mod names;
mod plan;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use causeway_dhcp::{Metrics, Server};

use crate::parts::admin_socket::AdminSocket;
use crate::parts::answer::FormatArg;
use crate::parts::output::{self, Output};
use crate::parts::plan_file::Follower;
use crate::parts::server_pod::ServerPodArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as YAML or JSON.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "server_name",
        conflicts_with = "server_name"
    )]
    config: Option<PathBuf>,
    #[command(flatten)]
    pod: ServerPodArgs,
    /// Which of the object's servers this is, from 1.
    #[arg(long, default_value_t = 1, value_name = "N")]
    replica: usize,
    /// Check the plan, print what is wrong with it, and end.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    format: FormatArg,
    /// Where leases are kept; `causeway leases` shows them.
    #[arg(long, value_name = "FILE", default_value = "leases", env = "CAUSEWAY_LEASES")]
    leases: PathBuf,
    /// Show metrics, leases and state here: a loopback address and port, or the path of a Unix socket.
    #[arg(long, value_name = "ADDR:PORT|PATH")]
    admin: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(config) = args.config else {
        return follow::run(args.pod, args.replica, args.leases).await;
    };
    if args.check {
        return plan::check(&config, args.format);
    }
    // Before the file is read, so that no change of it is missed.
    let mut follower = Follower::new(&config)?;
    let Some(mut runs) = plan::read(&config)? else {
        output::note(format_args!("causeway: {} can't be run", config.display()));
        return Ok(ExitCode::FAILURE);
    };
    let admin = match &args.admin {
        Some(at) => Some(AdminSocket::open(at).await?),
        None => None,
    };
    let metrics = Metrics::default();
    let server = Arc::new(Server::start(runs.clone(), &args.leases, metrics.clone())?);
    if let Some(admin) = admin {
        admin.start(admin::router(Arc::clone(&server), &metrics), Output::Stdout);
    }
    output::line(format_args!("serving {} on {}", runs.network, runs.interface));
    while follower.changed().await {
        match plan::read(&config) {
            Ok(Some(plan)) if plan == runs => {}
            Ok(Some(plan)) => match server.change(plan.clone()) {
                Ok(()) => {
                    output::line("plan applied");
                    runs = plan;
                }
                Err(error) => output::note(format_args!(
                    "causeway: the new plan can't be run; the last one runs on: {error}"
                )),
            },
            Ok(None) => output::note("causeway: the new plan is refused; the last one runs on"),
            Err(error) => output::note(format_args!(
                "causeway: the new plan is refused; the last one runs on: {error:#}"
            )),
        }
    }
    output::line("stopped");
    Ok(ExitCode::SUCCESS)
}
