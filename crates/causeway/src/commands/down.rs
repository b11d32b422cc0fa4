//! `causeway down`: asks the control plane of a data directory to stop, and waits until it has; with `--all`, ends the
//! tunnels too, which go on otherwise.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::data_dir::{self, DataDirArg};
use crate::parts::ending::{self, End};
use crate::parts::output;
use crate::parts::paint::Paint;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Cut off connections that are still open after this time [default: each pod has its own grace period, which for a
    /// proxy follows drainSeconds].
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// End the tunnels between containers and the host too, which outlive the control plane otherwise.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.path()?;
    let holder = data_dir::holder(&dir)?;
    let mut stopped = Stopped { data_dir: dir.display().to_string(), ..Stopped::default() };
    if let Some(holder) = &holder {
        if !args.format.is_json() {
            output::line(format_args!("stopping {} (pid {})", dir.display(), holder.pid));
        }
        let limit = args.timeout.map(Duration::from_secs);
        stopped.cut_off = ending::stop(&dir, holder, limit).await? == End::CutOff;
        stopped.pid = Some(holder.pid);
    }
    if args.all {
        stopped.tunnels = ending::end_tunnels(&dir).await?;
        let choice = args.container_runtime.choice_for(&dir)?;
        if let Some(choice) = choice.filter(|_| !stopped.tunnels.is_empty()) {
            stopped.containers = ending::remove_tunnel_containers(&dir, &choice).await?;
        }
    }
    args.format.print(&stopped)?;
    Ok(ExitCode::SUCCESS)
}

/// The answer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stopped {
    data_dir: String,
    /// The process that was stopped; absent if none ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    /// Whether something was still open when its time was over.
    cut_off: bool,
    /// Tunnel proxies that were ended, as NAMESPACE/NAME.
    tunnels: Vec<String>,
    /// Containers that were removed.
    containers: Vec<String>,
}

impl Answer for Stopped {
    fn text(&self, _: Paint) -> String {
        let stopped = match self.pid {
            Some(_) if self.cut_off => "stopped; what was still open was cut off".to_owned(),
            Some(_) => "stopped".to_owned(),
            None => format!("nothing is running on {}", self.data_dir),
        };
        let tunnels = self.tunnels.iter().map(|name| format!("ended the tunnels of {name}"));
        let containers = self.containers.iter().map(|name| format!("removed container {name}"));
        std::iter::once(stopped).chain(tunnels).chain(containers).collect::<Vec<_>>().join("\n")
    }
}
