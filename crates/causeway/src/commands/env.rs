//! `causeway env KIND/NAME`: the variables that a workload's container has, as far as the caller may read them, for a process
//! elsewhere. What its image sets is not in the API, and is not shown.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use causeway_base::file;

use crate::parts::env_format::EnvFormat;
use crate::parts::kube_context::ContextArgs;
use crate::parts::output::{self, Output};
use crate::parts::seen::Seen;
use crate::parts::target::{Target, TargetName};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The workload: deploy/NAME, sts/NAME, rs/NAME, ds/NAME or pod/NAME.
    #[arg(value_name = "KIND/NAME")]
    target: TargetName,
    /// Its container [default: the annotated one, else the first].
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// Leave out what leads to the Services of the namespace (`WEB_SERVICE_HOST` and others).
    #[arg(long)]
    no_service_links: bool,
    /// Write to this file, which only its owner can read, in place of standard output.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    context: ContextArgs,
    /// How to print them.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: EnvFormat,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cluster = args.context.cluster().await?;
    let target = Target::find(&cluster.client, &cluster.namespace, &args.target).await?;
    let container = args.container.as_deref();
    let seen = Seen::read(&cluster.client, &target, container, !args.no_service_links).await?;
    let variables = seen.variables();
    let written = args.output.write(&variables.found)?;
    for lack in &variables.lacks {
        output::note(format_args!("causeway: left out: {lack}"));
    }
    for name in &written.left_out {
        output::note(format_args!("causeway: left out: {name:?}: no name of a variable there"));
    }
    match &args.to {
        Some(path) => file::replace(path, file::PRIVATE, written.text.as_bytes())
            .with_context(|| format!("can't write {}", path.display()))?,
        None => drop(Output::Stdout.write(written.text.as_bytes())),
    }
    Ok(ExitCode::SUCCESS)
}
