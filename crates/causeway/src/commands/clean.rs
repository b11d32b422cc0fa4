//! `causeway clean`: what objects and demos that are gone have left on this machine. Containers and networks of this data
//! directory's own id whose object is gone, pods and files of tunnel proxies long gone, bridges that pods have left, and demos that were killed. It shows them;
//! with `--yes` it removes them. What others made, what is in use and what is to be kept is not touched.

mod directories;
mod in_runtime;
mod living;

use std::path::PathBuf;
use std::process::ExitCode;

use causeway_containers::Runtime;
use causeway_node::{LeftPod, networks};
use serde::Serialize;

use crate::commands::demo::stage::Stage;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::data_dir::{self, DataDirArg};
use crate::parts::paint::{Paint, Tone};
use crate::parts::table::{Cell, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Remove what is shown without it.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.path()?;
    let mut cleaned = Cleaned { removed: args.yes, leftovers: Vec::new(), unseen: Vec::new() };
    let mut things = Vec::new();
    // Held to the end: nobody makes something new of what is being removed.
    let living = living::living(&dir).await?;
    if let Some(living) = &living {
        things.extend(directories::left(&dir, living));
        match in_runtime::left(&dir, living, args.container_runtime.choice_for(&dir)?).await {
            Ok(left) => things.extend(left),
            Err(error) => cleaned.unseen.push(format!("containers and networks: {error:#}")),
        }
    }
    if let Some(living) = living.as_ref().filter(|living| !living.is_tended) {
        let left = causeway_node::left_pods(&data_dir::node(&dir), |uid| living.uids.contains(uid));
        match left {
            Ok(left) => things.extend(left.into_iter().map(Thing::Pod)),
            Err(error) => cleaned.unseen.push(format!("pods: {error}")),
        }
    }
    things.extend(Stage::abandoned().into_iter().map(Thing::Demo));
    // Whoever may not see them has made none.
    things.extend(networks::idle_bridges().unwrap_or_default().into_iter().map(Thing::Bridge));
    for thing in things {
        let mut leftover = thing.leftover();
        if args.yes
            && let Err(error) = thing.remove().await
        {
            leftover.failed = Some(format!("{error:#}"));
        }
        cleaned.leftovers.push(leftover);
    }
    args.format.print(&cleaned)?;
    let failed = cleaned.leftovers.iter().any(|leftover| leftover.failed.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Something that nobody needs any more, and how it is removed.
enum Thing {
    Container {
        runtime: Runtime,
        id: String,
        name: String,
        of: String,
    },
    Network {
        runtime: Runtime,
        id: String,
        name: String,
        of: String,
    },
    /// The host end of a tunnel proxy that is gone, which may still run.
    HostEnd {
        base: PathBuf,
        namespace: String,
        name: String,
    },
    /// Ports and journal of a tunnel proxy that is gone.
    Files {
        path: PathBuf,
        of: String,
    },
    /// Processes, network namespace and files of a pod that is gone.
    Pod(LeftPod),
    Demo(Stage),
    /// A bridge that was made for pods, with nothing plugged in.
    Bridge(String),
}

impl Thing {
    fn leftover(&self) -> Leftover {
        let (what, name, of) = match self {
            Self::Container { name, of, .. } => ("container", name.clone(), of.clone()),
            Self::Network { name, of, .. } => ("network", name.clone(), of.clone()),
            Self::HostEnd { base, namespace, name } => (
                "host end",
                base.join(namespace).join(name).display().to_string(),
                format!("ContainerNetworkTunnelProxy {namespace}/{name}"),
            ),
            Self::Files { path, of } => {
                ("files", path.display().to_string(), format!("ContainerNetworkTunnelProxy {of}"))
            }
            Self::Pod(pod) => ("pod", pod.name(), format!("Pod {}", pod.name())),
            Self::Demo(stage) => ("demo", stage.path().display().to_string(), "causeway demo".to_owned()),
            Self::Bridge(name) => ("bridge", name.clone(), "NetworkAttachmentDefinitions".to_owned()),
        };
        Leftover { what, name, of, failed: None }
    }

    async fn remove(self) -> anyhow::Result<()> {
        match self {
            Self::Container { runtime, id, .. } => Ok(runtime.remove(&id).await?),
            Self::Network { runtime, id, .. } => Ok(runtime.remove_network(&id).await?),
            Self::HostEnd { base, namespace, name } => directories::end(&base, &namespace, &name).await,
            Self::Files { path, .. } => directories::remove(&path),
            Self::Pod(pod) => Ok(pod.remove().await?),
            Self::Demo(stage) => stage.remove().await,
            Self::Bridge(name) => {
                networks::remove_idle_bridges();
                anyhow::ensure!(!networks::idle_bridges()?.contains(&name), "only root may remove it");
                Ok(())
            }
        }
    }
}

/// The answer.
#[derive(Debug, Serialize)]
struct Cleaned {
    /// Whether they were removed, or only shown.
    removed: bool,
    leftovers: Vec<Leftover>,
    /// What could not be looked at, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unseen: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Leftover {
    what: &'static str,
    name: String,
    /// Whom it was made for.
    of: String,
    /// Why it could not be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Answer for Cleaned {
    fn text(&self, paint: Paint) -> String {
        let mut lines: Vec<String> = self
            .unseen
            .iter()
            .map(|unseen| paint.tint(Tone::Faint, &format!("not looked at: {unseen}")))
            .collect();
        if self.leftovers.is_empty() {
            lines.push("nothing is left over".to_owned());
            return lines.join("\n");
        }
        let cells = self.leftovers.iter().map(|leftover| {
            let failed = leftover.failed.as_ref().map(|why| format!("stays: {why}")).unwrap_or_default();
            [
                leftover.what.into(),
                leftover.name.as_str().into(),
                leftover.of.as_str().into(),
                Cell::toned(Tone::Bad, failed),
            ]
        });
        lines.push(table(paint, ["WHAT", "NAME", "OF", ""], cells));
        let failed = self.leftovers.iter().filter(|leftover| leftover.failed.is_some()).count();
        let count = self.leftovers.len();
        lines.push(match (self.removed, failed) {
            (false, _) => format!("\nremove what is above with `causeway clean --yes` ({count})"),
            (true, 0) => format!("\nremoved all of it ({count})"),
            (true, _) => format!("\n{failed} of {count} could not be removed"),
        });
        lines.join("\n")
    }
}
