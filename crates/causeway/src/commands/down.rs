//! `causeway down`: asks the control plane of a data directory to stop, and waits until it has; with `--all`, ends the
//! tunnels too, which go on otherwise.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::ContainerNetworkTunnelProxy;
use causeway_containers::{Choice, Runtime};
use causeway_controllers::containers::tunnel;
use kube::Resource as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::data_dir::{self, DataDirArg, Holder};
use crate::parts::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// How long to wait for it to drain.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    timeout: u64,
    /// End the tunnels between containers and the host too, which outlive the control plane otherwise.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.path()?;
    match data_dir::holder(&dir)? {
        Some(holder) => stop(&dir, &holder, args.timeout).await?,
        None => {
            output::line(format_args!("nothing is running on {}", dir.display()));
        }
    }
    if args.all {
        end_tunnels(&dir, args.container_runtime.choice()).await?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn stop(dir: &Path, holder: &Holder, timeout: u64) -> anyhow::Result<()> {
    let pid = Pid::from_raw(holder.pid).context("the lock names no process")?;
    kill_process(pid, Signal::TERM).with_context(|| format!("can't stop process {}", holder.pid))?;
    output::line(format_args!("stopping {} (pid {})", dir.display(), holder.pid));
    let deadline = Instant::now() + Duration::from_secs(timeout);
    while data_dir::holder(dir)?.is_some_and(|h| h.pid == holder.pid) {
        if Instant::now() > deadline {
            bail!(
                "process {} still runs after {} s; wait longer with --timeout, or end it with `kill -9 {}`: no acknowledged write is lost",
                holder.pid,
                timeout,
                holder.pid
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    output::line("stopped");
    Ok(())
}

/// Ends the host ends of this directory, then removes their containers.
async fn end_tunnels(dir: &Path, choice: Option<Choice>) -> anyhow::Result<()> {
    let tunnels = data_dir::containers(dir, choice)?;
    let ended = tunnel::end_all(&tunnels.directory).await.map_err(anyhow::Error::msg)?;
    for name in &ended {
        output::line(format_args!("ended the tunnels of {name}"));
    }
    let Some(choice) = tunnels.choice.filter(|_| !ended.is_empty()) else { return Ok(()) };
    let runtime = Runtime::connect(&choice).await.context("the tunnels' containers can't be removed")?;
    let kind = ContainerNetworkTunnelProxy::kind(&());
    let swept = runtime.sweep(&tunnels.instance, &kind, |_| false).await?;
    for name in swept.containers {
        output::line(format_args!("removed container {name}"));
    }
    Ok(())
}
