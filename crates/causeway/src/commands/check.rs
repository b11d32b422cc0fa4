//! `causeway check`: whether a cluster can take Causeway, and whether what is installed is as it should be, in the manner of a
//! checklist: what was looked at, how it is, and what to do. The exit code is 1 if something fails.

mod definitions;
mod ground;
mod leftovers;
mod line;
mod operator;
mod others;
mod peers;

use std::process::ExitCode;

use causeway_api::names;
use kube::Client;

use crate::parts::answer::FormatArg;
use crate::parts::cluster::ClusterArgs;
pub(crate) use definitions::version;
pub(crate) use line::{Checklist, Line};

use crate::parts::installation::Piece;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the installation.
    #[arg(long, short, env = "CAUSEWAY_NAMESPACE", default_value = names::NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Only what matters before an installation.
    #[arg(long)]
    pre: bool,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.cluster.client().await?;
    let mut lines = ground::version(&client).await;
    if lines.iter().any(Line::is_failed) {
        // Nobody else would answer.
        return print(args.format, lines);
    }
    let definitions = definitions::Known::read(&client).await;
    lines.extend(definitions::lines(&definitions, &args.namespace, args.pre));
    lines.extend(peers::lines(&definitions));
    lines.extend(ground::namespace(&client, &args.namespace).await);
    lines.extend(others::lines(&client, &args.namespace).await);
    lines.extend(leftovers::lines(&client, &args.namespace, &definitions, args.pre).await);
    if !args.pre {
        lines.extend(operator::lines(&client, &args.namespace).await);
    }
    print(args.format, lines)
}

fn print(format: FormatArg, lines: Vec<Line>) -> anyhow::Result<ExitCode> {
    let list = Checklist::new(lines);
    format.print(&list)?;
    Ok(if list.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What matters before these objects are applied by `causeway install`.
pub(crate) async fn before_install(client: &Client, namespace: &str, pieces: &[Piece]) -> Vec<Line> {
    let mut lines = ground::version(client).await;
    if lines.iter().any(Line::is_failed) {
        return lines;
    }
    let definitions = definitions::Known::read(client).await;
    lines.extend(definitions::lines(&definitions, namespace, true));
    lines.extend(definitions::ownership(client, &definitions).await);
    lines.extend(definitions::needed(&definitions, pieces));
    lines.extend(ground::namespace(client, namespace).await);
    lines.extend(others::lines(client, namespace).await);
    lines.extend(others::manager(client, namespace).await);
    lines.extend(leftovers::lines(client, namespace, &definitions, true).await);
    lines.extend(ground::rights(client, pieces).await);
    lines
}
