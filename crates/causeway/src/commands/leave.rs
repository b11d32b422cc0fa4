//! `causeway leave`: ends intercepts, and waits until their targets are as they were.

use std::process::ExitCode;

use anyhow::bail;
use causeway_api::InterceptRequest;
use causeway_base::near::did_you_mean;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Serialize;

use super::intercept::activation;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::connection::Connection;
use crate::parts::kube_context::{Cluster, ContextArgs};

use crate::parts::paint::Paint;
use crate::parts::progress::Progress;
use crate::parts::refusal;
use crate::parts::target::TargetName;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Intercepts to leave: their names, or KIND/NAME of a target for those that this machine has on it.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All intercepts of this machine, in the namespace.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The Workstation that this machine is connected as, if there are several.
    #[arg(long, value_name = "NAME")]
    workstation: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cluster = args.context.cluster().await?;
    let data_dir = args.context.data_dir.path()?;
    // An intercept can be left by its name from any machine.
    let connection = Connection::choose(&data_dir, &cluster, args.workstation.as_deref());
    let api: Api<InterceptRequest> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let there = api.list(&ListParams::default()).await;
    let there = match there {
        Ok(list) => list.items,
        Err(error) => bail!("can't list intercepts: {}", refusal::advice(&error)),
    };
    let mut chosen = Vec::new();
    for name in &args.names {
        chosen.extend(named(name, &there, &cluster, connection.as_ref().ok())?);
    }
    if args.all {
        let connection = match &connection {
            Ok(connection) => connection,
            Err(error) => bail!("{error:#}"),
        };
        chosen.extend(own(&there, &cluster, connection).map(ResourceExt::name_any));
    }
    let progress = Progress::new(!args.format.is_json());
    let mut left = Left { left: Vec::new() };
    for name in chosen {
        progress
            .wait(&format!("leaving {name}"), async |detail| {
                activation::end(&api, &name, &detail).await?;
                Ok::<_, anyhow::Error>(((), String::new()))
            })
            .await?;
        if let Ok(connection) = &connection {
            connection.deliver_no_more(&format!("{}/{name}", cluster.namespace))?;
        }
        left.left.push(name);
    }
    args.format.print(&left)?;
    Ok(ExitCode::SUCCESS)
}

/// The intercepts that a word on the command line means.
fn named(
    name: &str,
    there: &[InterceptRequest],
    cluster: &Cluster,
    connection: Option<&Connection>,
) -> anyhow::Result<Vec<String>> {
    if there.iter().any(|request| request.name_any() == name) {
        return Ok(vec![name.to_owned()]);
    }
    if let (Ok(target), Some(connection)) = (name.parse::<TargetName>(), connection) {
        let is_of = |request: &&InterceptRequest| {
            let target_of = request.spec.target.as_deref().and_then(|text| text.parse::<TargetName>().ok());
            target_of.as_ref() == Some(&target)
        };
        let found: Vec<String> =
            own(there, cluster, connection).filter(is_of).map(ResourceExt::name_any).collect();
        if found.is_empty() {
            bail!("this machine has no intercept of {target} in namespace {}", cluster.namespace);
        }
        return Ok(found);
    }
    let names: Vec<String> = there.iter().map(ResourceExt::name_any).collect();
    bail!(
        "there is no intercept {name} in namespace {}{}",
        cluster.namespace,
        did_you_mean(name, names.iter().map(String::as_str))
    )
}

/// Those of a connection.
pub(crate) fn own<'a>(
    there: &'a [InterceptRequest],
    cluster: &Cluster,
    connection: &Connection,
) -> impl Iterator<Item = &'a InterceptRequest> {
    let settings = &connection.settings;
    let mut names = vec![settings.label()];
    if settings.namespace == cluster.namespace {
        names.push(settings.workstation.clone());
    }
    there.iter().filter(move |request| names.contains(&request.spec.workstation))
}

/// The answer.
#[derive(Serialize)]
struct Left {
    left: Vec<String>,
}

impl Answer for Left {
    fn text(&self, _: Paint) -> String {
        if self.left.is_empty() {
            return "no intercepts to leave".to_owned();
        }
        self.left
            .iter()
            .map(|name| format!("left {name}; its target is as it was"))
            .collect::<Vec<_>>()
            .join("\n")
    }
}
