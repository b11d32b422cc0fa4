//! `causeway check`: whether a cluster can take Causeway, and whether what is installed is as it should be, in the manner of a
//! checklist: what was looked at, how it is, and what to do. The exit code is 1 if something fails.

mod change;
mod confined;
mod definitions;
mod ground;
mod leftovers;
mod line;
mod operator;
mod others;
mod peers;

use std::collections::BTreeSet;
use std::process::ExitCode;

use causeway_api::names;
use kube::Client;

use crate::parts::answer::FormatArg;
use crate::parts::cluster::ClusterArgs;
use confined::definitions_in_use;
use definitions::When;
pub(crate) use definitions::version;
pub(crate) use ground::going;
pub(crate) use line::{Checklist, Line};

use super::operator::namespace_name;
use crate::parts::installation::{self, Piece, Reach};

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
    /// Before an installation for these namespaces alone, as `causeway install --namespaces` makes it.
    #[arg(long, value_delimiter = ',', value_parser = namespace_name, value_name = "NAMESPACE", requires = "pre")]
    namespaces: Vec<String>,
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
    if !args.pre
        && let Ok(Some(found)) = installation::confined(&client, &args.namespace, &[]).await
    {
        lines.extend(confined::lines(&client, &args.namespace, &found.namespaces()).await);
        return print(args.format, lines);
    }
    let definitions = definitions::Known::read(&client).await;
    let reach = Reach::of(&args.namespaces);
    let when = match (args.pre, &reach) {
        (false, _) => When::After,
        (true, Reach::Cluster) => When::Before,
        (true, _) => When::Without,
    };
    lines.extend(known_kinds(&client, &definitions, &args.namespace, when).await);
    lines.extend(peers::lines(&client, &definitions).await);
    lines.extend(ground::namespace(&client, &args.namespace).await);
    lines.extend(others::lines(&client, &args.namespace, &reach).await);
    lines.extend(leftovers::lines(&client, &args.namespace, &definitions, args.pre).await);
    if args.pre {
        lines.extend(confined::lent_rights(&args.namespace, &reach));
        lines.extend(change::lines(&client, &args.namespace, &reach).await);
        let pieces = installation::usual_pieces(&args.namespace, &args.namespaces)?;
        lines.extend(ground::rights(&client, &pieces).await);
    } else {
        lines.extend(operator::lines(&client, &args.namespace, None).await);
    }
    print(args.format, lines)
}

/// Of the definitions, and of what is served to those who may not see them and need not make them.
async fn known_kinds(client: &Client, known: &definitions::Known, namespace: &str, when: When) -> Vec<Line> {
    if when == When::Without && !known.is_seen() {
        return definitions_in_use(client).await;
    }
    definitions::lines(known, namespace, when)
}

fn print(format: FormatArg, lines: Vec<Line>) -> anyhow::Result<ExitCode> {
    let list = Checklist::new(lines);
    format.print(&list)?;
    Ok(if list.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was found before an installation.
pub(crate) struct Before {
    pub(crate) lines: Vec<Line>,
    /// Definitions that a newer version has written. They bear what an older one asks of them, and are left alone.
    pub(crate) newer: BTreeSet<String>,
}

/// What matters before these objects are applied by `causeway install`, for an operator that reaches this far. It may go back to an
/// older version if asked to.
pub(crate) async fn before_install(
    client: &Client,
    namespace: &str,
    pieces: &[Piece],
    reach: &Reach,
    may_go_back: bool,
) -> Before {
    let mut lines = ground::version(client).await;
    if lines.iter().any(Line::is_failed) {
        return Before { lines, newer: BTreeSet::new() };
    }
    let definitions = definitions::Known::read(client).await;
    let ours: Vec<&str> = pieces
        .iter()
        .filter(|piece| piece.kind() == "CustomResourceDefinition")
        .map(|piece| piece.name.as_str())
        .collect();
    let when = match (ours.is_empty(), may_go_back) {
        (true, _) => When::Without,
        (false, true) => When::Back,
        (false, false) => When::Before,
    };
    lines.extend(known_kinds(client, &definitions, namespace, when).await);
    if when != When::Without {
        lines.extend(definitions::ownership(client, &definitions).await);
    }
    lines.extend(definitions::needed(&definitions, pieces));
    lines.extend(peers::lines(client, &definitions).await);
    lines.extend(ground::namespace(client, namespace).await);
    lines.extend(others::lines(client, namespace, reach).await);
    lines.extend(confined::lent_rights(namespace, reach));
    lines.extend(change::lines(client, namespace, reach).await);
    lines.extend(others::manager(client, namespace, may_go_back).await);
    lines.extend(leftovers::lines(client, namespace, &definitions, true).await);
    lines.extend(ground::rights(client, pieces).await);
    let newer = ours.into_iter().filter(|name| definitions::is_newer(&definitions, name));
    Before { lines, newer: newer.map(ToOwned::to_owned).collect() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_namespace_without_a_name_is_refused() {
        let namespaces = |list: &str| Command::try_parse_from(["x", "--pre", "--namespaces", list]);
        assert_eq!(namespaces("team-a,team-b").unwrap().args.namespaces, ["team-a", "team-b"]);
        for list in ["team-a,", ""] {
            let refused = namespaces(list).unwrap_err().to_string();
            assert!(refused.contains("`` is no name of a namespace"), "{list}: {refused}");
        }
    }
}
