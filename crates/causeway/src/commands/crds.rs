//! `causeway crds`: the definitions of Causeway's kinds, for those who keep them apart from the rest: printed, or applied. They are
//! only ever brought to a newer version.

use std::process::ExitCode;

use anyhow::{Context, bail};
use causeway_api::names;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde::Serialize;

use super::check;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::cluster::ClusterArgs;
use crate::parts::output::Output;
use crate::parts::paint::Paint;
use crate::parts::refusal;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Apply them, in place of printing them.
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let definitions = causeway_api::crds();
    if !args.apply {
        if args.format.is_json() {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": definitions});
            Output::Stdout.line(serde_json::to_string_pretty(&list)?);
        } else {
            let texts = definitions
                .iter()
                .map(|crd| serde_saphyr::to_string(&serde_json::to_value(crd)?).context("YAML"));
            Output::Stdout.line(texts.collect::<anyhow::Result<Vec<_>>>()?.join("---\n").trim_end());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let client = args.cluster.client().await?;
    let mut done = Definitions { created: 0, changed: 0, unchanged: 0 };
    // All are looked at before one is written.
    let mut before = Vec::new();
    for definition in &definitions {
        before.push(there(&client, definition).await?);
    }
    for (definition, before) in definitions.iter().zip(before) {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = definition.name_any();
        let mut wanted = definition.clone();
        if let Some(before) = &before {
            // Those of the installation that it is part of stay.
            let mut labels = before.labels.clone().unwrap_or_default();
            labels.extend(definition.labels().clone());
            wanted.metadata.labels = Some(labels);
        }
        let apply = PatchParams::apply(names::INSTALLER).force();
        let after = api.patch(&name, &apply, &Patch::Apply(&wanted)).await;
        let after =
            after.map_err(|error| anyhow::anyhow!("can't apply {name}: {}", refusal::words(&error)))?;
        match before {
            None => done.created += 1,
            Some(before) if before.resource_version == after.metadata.resource_version => done.unchanged += 1,
            Some(_) => done.changed += 1,
        }
    }
    args.format.print(&done)?;
    Ok(ExitCode::SUCCESS)
}

/// What is there, which must not be newer.
async fn there(client: &Client, definition: &CustomResourceDefinition) -> anyhow::Result<Option<ObjectMeta>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.name_any();
    let found = match api.get_metadata_opt(&name).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(error) => bail!("can't look at {name}: {}", refusal::words(&error)),
    };
    let own = env!("CARGO_PKG_VERSION");
    let wrote = found.labels().get(names::LABEL_VERSION).map_or("", String::as_str);
    if check::version(wrote) > check::version(own) {
        bail!(
            "{name} is of version {wrote}, newer than this program ({own}): use that one; nothing was changed"
        );
    }
    if found.metadata.deletion_timestamp.is_some() {
        bail!("{name} is being deleted: see `causeway check`; nothing was changed");
    }
    Ok(Some(found.metadata))
}

/// What was done.
#[derive(Debug, Serialize)]
struct Definitions {
    created: usize,
    changed: usize,
    unchanged: usize,
}

impl Answer for Definitions {
    fn text(&self, _: Paint) -> String {
        format!(
            "definitions: {} made, {} changed, {} as they were",
            self.created, self.changed, self.unchanged
        )
    }
}
