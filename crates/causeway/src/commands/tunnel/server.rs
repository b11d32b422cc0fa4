//! The end on the host, by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use causeway_ir::tunnel::{LinkState, TunnelPlan, TunnelState};
use causeway_tunnel::host::{self, Host};

use super::{keys, plan};
use crate::parts::output;
use crate::parts::plan_file::Follower;

/// How long streams may go on after the server was told to end.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The client and the tunnels, as YAML; read again when it changes and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    // Before the file is read, so that no change of it is missed.
    let mut follower = Follower::new(&args.config)?;
    let plan = plan::read(&args.config)?;
    let dial = plan.dial.with_context(|| {
        format!("{} does not say where the client listens: write dial", args.config.display())
    })?;
    let authority = keys::read_authority(&plan.authority)?;
    let host = Host::start(host::Options::new(dial.control, dial.data, authority));
    host.carry(plan.tunnels.clone());
    let mut names = names(&plan);
    let mut status = host.status();
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
                        output::note(format_args!(
                            "causeway: the file is refused; what was there before runs on: {error:#}"
                        ));
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

/// What to do about an attempt that can't succeed by itself.
fn advice(error: &str) -> &'static str {
    // Authorities have one name, so that of another is taken for the own one until the signature is looked at.
    if error.contains("BadSignature") || error.contains("UnknownIssuer") {
        "; the client's identity is of another authority: give the client the one that `causeway tunnel keys` made beside \
         this plan's authority"
    } else {
        ""
    }
}

fn announce(status: &host::Status, names: &BTreeMap<u32, String>) {
    output::line(match &status.link {
        LinkState::Up => "link up".to_owned(),
        LinkState::Connecting { attempt, error } => {
            let error = error.as_deref().unwrap_or("connecting");
            format!("link down, attempt {attempt}: {error}{}", advice(error))
        }
    });
    for (id, state) in &status.tunnels {
        let state = match state {
            TunnelState::Pending => "pending".to_owned(),
            TunnelState::Listening { port } => format!("listening on port {port}"),
            TunnelState::NoEndpoints { port } => format!("port {port} refuses: there is no endpoint"),
            TunnelState::Unreachable { port, error } => format!("port {port} refuses: {error}"),
            TunnelState::Failed { error } => format!("failed: {error}"),
        };
        output::line(format_args!("{}: {state}", names.get(id).map_or("?", String::as_str)));
    }
}
