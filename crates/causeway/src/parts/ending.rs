//! The end of what runs for a data directory: its control plane, its tunnels, and their containers.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::ContainerNetworkTunnelProxy;
use causeway_containers::{Choice, Runtime};
use causeway_controllers::containers::tunnel;
use kube::Resource as _;
use rustix::process::{Pid, Signal, kill_process};

use super::data_dir::{self, Holder};

/// How long the control plane may take to end once nothing drains any more.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether the process is gone.
const LOOK: Duration = Duration::from_millis(50);

/// How a control plane came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Drained,
    /// What was still open after the time it was given was cut off.
    CutOff,
}

/// Asks the control plane to stop and waits until it has. Without a limit, pods drain for as long as each is given.
///
/// # Errors
/// When it does not even end after it was told to cut off what drains.
pub(crate) async fn stop(dir: &Path, holder: &Holder, limit: Option<Duration>) -> anyhow::Result<End> {
    let pid = Pid::from_raw(holder.pid).context("the lock names no process")?;
    let ask =
        || kill_process(pid, Signal::TERM).with_context(|| format!("can't stop process {}", holder.pid));
    ask()?;
    let drained = wait_for_end(dir, holder);
    let Some(limit) = limit else {
        drained.await?;
        return Ok(End::Drained);
    };
    if let Ok(ended) = tokio::time::timeout(limit, drained).await {
        ended?;
        return Ok(End::Drained);
    }
    // Asked a second time it cuts off what still drains.
    ask()?;
    match tokio::time::timeout(END_PATIENCE, wait_for_end(dir, holder)).await {
        Ok(ended) => ended?,
        Err(_) => bail!(
            "process {pid} still runs after {} s; end it with `kill -9 {pid}`: no acknowledged write is lost",
            (limit + END_PATIENCE).as_secs(),
            pid = holder.pid,
        ),
    }
    Ok(End::CutOff)
}

/// Waits until the process no longer holds the directory.
async fn wait_for_end(dir: &Path, holder: &Holder) -> anyhow::Result<()> {
    while data_dir::holder(dir)?.is_some_and(|h| h.pid == holder.pid) {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Ends the host ends of a directory; the names of their objects.
pub(crate) async fn end_tunnels(dir: &Path) -> anyhow::Result<Vec<String>> {
    tunnel::end_all(&data_dir::tunnels(dir)).await.map_err(anyhow::Error::msg)
}

/// Removes the containers of a directory's tunnels, whose host ends are gone; their names.
pub(crate) async fn remove_tunnel_containers(dir: &Path, choice: &Choice) -> anyhow::Result<Vec<String>> {
    let instance = data_dir::instance(dir)?;
    let runtime = Runtime::connect(choice).await.context("the tunnels' containers can't be removed")?;
    let kind = ContainerNetworkTunnelProxy::kind(&());
    Ok(runtime.sweep(&instance, &kind, |_| false).await?.containers)
}
