//! `causeway install`: the chart that this program was built with, rendered, looked over against the cluster, applied, and waited
//! for. What can't work is said before anything is changed; what fails later is taken back.

mod apply;
mod confined;
mod kept;
mod rollout;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use causeway_api::names;
use causeway_chart::{Chart, Document, Release};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use super::check::{self, Checklist, Line};
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::cluster::ClusterArgs;
use crate::parts::installation::{self, Piece, Reach};
use crate::parts::output::Output;
use crate::parts::paint::Paint;
use crate::parts::progress::Progress;
use crate::parts::refusal;
use crate::parts::termination::Termination;
use apply::Applied;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the operator; it is made if it is not there.
    #[arg(long, short, env = "CAUSEWAY_NAMESPACE", default_value = names::NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Values of the chart, a file in YAML; may be given several times, a later one over an earlier one.
    #[arg(long, short = 'f', value_name = "FILE")]
    values: Vec<PathBuf>,
    /// A value of the chart, as for Helm: image.tag=1.2.3; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    single: Vec<String>,
    /// An operator for these namespaces alone, with rights there and nowhere else, like --set 'namespaces={a,b}'. The definitions are
    /// an administrator's matter then, and the operator's namespace has to be there.
    #[arg(long, value_delimiter = ',', value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// For OpenShift, like --set openshift=true.
    #[arg(long)]
    openshift: bool,
    /// Go back from a newer version. Its definitions stay, as its objects may have fields that older ones do not know.
    #[arg(long)]
    downgrade: bool,
    /// Print what would be applied, and change nothing. No cluster is needed.
    #[arg(long)]
    dry_run: bool,
    /// How long to wait until the operator is ready; what was applied is taken back then.
    #[arg(long, default_value_t = 180, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    format: FormatArg,
}

impl Args {
    fn overrides(&self) -> anyhow::Result<Value> {
        let read = |path: &PathBuf| {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
            anyhow::Ok((name, text))
        };
        let files = self.values.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        let mut values = causeway_chart::with_files(&files)?;
        for single in &self.single {
            causeway_chart::set(&mut values, single)?;
        }
        if self.openshift {
            values["openshift"] = json!(true);
        }
        if !self.namespaces.is_empty() {
            values["namespaces"] = json!(self.namespaces);
        }
        if confined::is_asked(&values) {
            confined::leave_to_administrators(&mut values);
        }
        Ok(values)
    }

    fn render(&self, overrides: &Value) -> anyhow::Result<Vec<Document>> {
        let release = Release {
            name: installation::NAME.to_owned(),
            namespace: self.namespace.clone(),
            service: names::INSTALLER.to_owned(),
        };
        Ok(Chart::own().render(&release, overrides)?)
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut overrides = args.overrides()?;
    if !overrides["namespace"]["create"].is_boolean() {
        overrides["namespace"]["create"] = json!(true);
    }
    if args.dry_run {
        return print(&args, &args.render(&overrides)?);
    }
    // Before a cluster is asked: values that the chart does not take are wrong on every cluster.
    let rendered = args.render(&overrides)?;
    let client = args.cluster.client().await?;
    for document in rendered.iter().filter(|document| document.kind() == "Namespace") {
        if !is_somebody_elses(&client, document.name(), &args.namespace).await? {
            continue;
        }
        if document.name() == args.namespace {
            overrides["namespace"]["create"] = json!(false);
        } else {
            overrides["hostnames"]["gatewayNamespace"]["create"] = json!(false);
        }
    }
    let mut documents = args.render(&overrides)?;
    let pieces: Vec<Piece> = documents.iter().map(Piece::of).collect();
    let progress = Progress::new(!args.format.is_json());
    let wanted = confined::namespaces(&overrides);
    let reach = Reach::of(&wanted);
    let check::Before { mut lines, newer } =
        check::before_install(&client, &args.namespace, &pieces, &reach, args.downgrade).await;
    // Also where others have made it.
    let others = rendered.iter().filter(|one| one.kind() == "Namespace" && one.name() != args.namespace);
    for other in others {
        lines.extend(check::going(&client, other.name()).await);
    }
    documents
        .retain(|document| document.kind() != "CustomResourceDefinition" || !newer.contains(document.name()));
    if !lines.iter().any(Line::is_failed) {
        lines.extend(apply::refusals(&client, &documents).await?);
    }
    if lines.iter().any(Line::is_failed) {
        args.format.print(&Checklist::new(lines))?;
        bail!("nothing was changed");
    }
    lines.retain(Line::is_warning);
    for warning in &lines {
        progress.warn(warning.words());
    }
    let scope = installation::scope(&client, &args.namespace, &wanted).await;
    let mut termination = Termination::listen()?;
    let start = Instant::now();
    let deadline = start + Duration::from_secs(args.timeout);
    let mut applied = Applied::default();
    let work = async {
        progress
            .wait("applying", async |_| {
                applied.all(&client, &documents).await?;
                anyhow::Ok(((), format!("{} objects are applied", documents.len())))
            })
            .await?;
        progress
            .wait("waiting for the operator", async |detail| {
                rollout::ready(&client, &args.namespace, deadline, &detail).await?;
                anyhow::Ok(((), "the operator is ready".to_owned()))
            })
            .await
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = termination.asked() => Err(anyhow!("it was interrupted")),
    };
    if let Err(error) = outcome {
        progress.mind("taking back what was applied");
        let back = tokio::select! {
            back = applied.take_back(&client) => back,
            () = termination.asked() => Err(anyhow!("interrupted again")),
        };
        let back = match back {
            Ok(left) if left.is_empty() => "what was applied is taken back".to_owned(),
            Ok(left) => format!("what was applied is taken back, but for {}", left.join("; ")),
            Err(left) => format!("taking back what was applied failed, too ({left:#}): see `causeway check`"),
        };
        return Err(error.context(back));
    }
    // Only now: before, it may have been needed again.
    let (pruned, not_pruned) = apply::prune(&client, &args.namespace, &scope, &pieces).await;
    let installed = Installed {
        version: env!("CARGO_PKG_VERSION"),
        namespace: args.namespace,
        created: applied.created(),
        changed: applied.changed(),
        removed: pruned.iter().map(ToString::to_string).collect(),
        seconds: start.elapsed().as_secs_f64(),
        warnings: lines,
    };
    args.format.print(&installed)?;
    not_pruned.context("it is installed; what the values no longer ask for could not all be removed")?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the namespace is there and was made by others, who go on deciding about it.
async fn is_somebody_elses(client: &Client, name: &str, installation: &str) -> anyhow::Result<bool> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = match api.get_opt(name).await {
        Ok(found) => found,
        // The check says all that is missing, and not only this.
        Err(error) if refusal::is_forbidden(&error) => None,
        Err(error) => bail!("can't look at namespace {name}: {}", refusal::words(&error)),
    };
    Ok(found.is_some_and(|found| !installation::is_own_namespace(found.labels(), installation)))
}

fn print(args: &Args, documents: &[Document]) -> anyhow::Result<ExitCode> {
    if args.format.is_json() {
        let items: Vec<&Value> = documents.iter().map(|document| &document.object).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        Output::Stdout.line(serde_json::to_string_pretty(&list)?);
    } else {
        let texts: Vec<&str> = documents.iter().map(|document| document.text.as_str()).collect();
        Output::Stdout.line(texts.join("\n---\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// What was done.
#[derive(Debug, Serialize)]
struct Installed {
    version: &'static str,
    namespace: String,
    created: usize,
    changed: usize,
    /// What the values no longer ask for.
    removed: Vec<String>,
    seconds: f64,
    /// What was to be thought about before; people were told then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Line>,
}

impl Answer for Installed {
    fn text(&self, _: Paint) -> String {
        let Self { version, namespace, created, changed, removed, seconds, warnings: _ } = self;
        let done = format!(
            "Causeway {version} is in namespace {namespace}, after {seconds:.1} s: {created} objects made, {changed} changed"
        );
        let removed = removed.iter().map(|piece| format!("removed {piece}"));
        [done].into_iter().chain(removed).collect::<Vec<_>>().join("\n")
    }
}
