//! `causeway down`: asks the control plane of a data directory to stop, and waits until it has.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::parts::data_dir::{self, DataDirArg};
use crate::parts::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// How long to wait for it to drain.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    timeout: u64,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.path()?;
    let Some(holder) = data_dir::holder(&dir)? else {
        output::line(format_args!("nothing is running on {}", dir.display()));
        return Ok(ExitCode::SUCCESS);
    };
    let pid = Pid::from_raw(holder.pid).context("the lock names no process")?;
    kill_process(pid, Signal::TERM).with_context(|| format!("can't stop process {}", holder.pid))?;
    output::line(format_args!("stopping {} (pid {})", dir.display(), holder.pid));
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while data_dir::holder(&dir)?.is_some_and(|h| h.pid == holder.pid) {
        if Instant::now() > deadline {
            bail!(
                "process {} still runs after {} s; wait longer with --timeout, or end it with `kill -9 {}`: no acknowledged write is lost",
                holder.pid,
                args.timeout,
                holder.pid
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    output::line("stopped");
    Ok(ExitCode::SUCCESS)
}
