//! The end on the host, by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use causeway_ir::tunnel::TunnelPlan;
use causeway_tunnel::host::{self, Host, LinkState, TunnelState};

use super::{keys, plan};
use crate::parts::plan_file::Follower;
use crate::parts::{open_files, output};

/// How long streams may go on after the server was told to end.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The client and the tunnels, as YAML; read again when it changes and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let plan = plan::read(&args.config)?;
    let dial = plan.dial.with_context(|| {
        format!("{} does not say where the client listens: write dial", args.config.display())
    })?;
    open_files::raise_limit();
    let authority = keys::read_authority(&plan.authority)?;
    let host = Host::start(host::Options::new(dial.control, dial.data, authority));
    host.carry(plan.tunnels.clone());
    let mut names = names(&plan);
    let mut status = host.status();
    let mut follower = Follower::new(&args.config)?;
    loop {
        tokio::select! {
            _ = status.changed() => announce(&status.borrow_and_update(), &names),
            again = follower.changed() => {
                if !again {
                    break;
                }
                match plan::read(&args.config) {
                    Ok(plan) => {
                        names = self::names(&plan);
                        if let Some(dial) = plan.dial {
                            host.redial(dial.control, dial.data);
                        }
                        host.carry(plan.tunnels);
                    }
                    Err(error) => {
                        eprintln!("causeway: the file is refused; what was there before runs on: {error:#}");
                    }
                }
            }
        }
    }
    output::line(format_args!("draining, at most {DRAIN:?}"));
    host.drain(DRAIN).await;
    Ok(())
}

fn names(plan: &TunnelPlan) -> BTreeMap<u32, String> {
    plan.tunnels.iter().map(|tunnel| (tunnel.id, tunnel.name.to_string())).collect()
}

fn announce(status: &host::Status, names: &BTreeMap<u32, String>) {
    output::line(match &status.link {
        LinkState::Up => "link up".to_owned(),
        LinkState::Connecting { attempt, error } => {
            format!("link down, attempt {attempt}: {}", error.as_deref().unwrap_or("connecting"))
        }
    });
    for (id, state) in &status.tunnels {
        let state = match state {
            TunnelState::Pending => "pending".to_owned(),
            TunnelState::Listening { port } => format!("listening on port {port}"),
            TunnelState::NoTargets { port } => format!("port {port} refuses: there is no endpoint"),
            TunnelState::Unreachable { port, error } => format!("port {port} refuses: {error}"),
            TunnelState::Failed { error } => format!("failed: {error}"),
        };
        output::line(format_args!("{}: {state}", names.get(id).map_or("?", String::as_str)));
    }
}
