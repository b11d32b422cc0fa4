//! `causeway status`: every Causeway resource, whether it is ready and why not, as one table.

use std::process::ExitCode;

use anyhow::{Context, bail};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;

use crate::parts::cluster::ClusterArgs;
use crate::parts::output;
use crate::parts::table::table;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only this namespace [default: all].
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// End with an error if something is not ready.
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.cluster.client().await?;
    let mut rows = Vec::new();
    for crd in causeway_api::crds() {
        let names = &crd.spec.names;
        let resource = ApiResource {
            group: crd.spec.group.clone(),
            version: causeway_api::names::VERSION.to_owned(),
            api_version: causeway_api::names::API_VERSION.to_owned(),
            kind: names.kind.clone(),
            plural: names.plural.clone(),
        };
        let namespaced = crd.spec.scope == "Namespaced";
        let api: Api<DynamicObject> = match &args.namespace {
            Some(namespace) if namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
            Some(_) => continue,
            None => Api::all_with(client.clone(), &resource),
        };
        match api.list(&ListParams::default()).await {
            Ok(list) => rows.extend(list.iter().map(|object| Row::of(&names.kind, object))),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!(
                    "this cluster does not know {}; install Causeway's definitions (deploy/crds)",
                    names.plural
                )
            }
            Err(error) => return Err(error).with_context(|| format!("can't list {}", names.plural)),
        }
    }
    output::line(show(&rows));
    let waiting = rows.iter().filter(|r| r.ready != "True").count();
    if args.check && waiting > 0 {
        bail!("{waiting} of {} resources are not ready", rows.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said of one object.
struct Row {
    kind: String,
    namespace: String,
    name: String,
    ready: String,
    reason: String,
    message: String,
}

impl Row {
    fn of(kind: &str, object: &DynamicObject) -> Self {
        let conditions = object.data["status"]["conditions"].as_array();
        let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
        let text = |field: &str| ready.and_then(|c| c[field].as_str()).unwrap_or_default().to_owned();
        Self {
            kind: kind.to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            ready: if ready.is_some() { text("status") } else { "-".to_owned() },
            reason: if ready.is_some() { text("reason") } else { "NotYetSeen".to_owned() },
            message: text("message"),
        }
    }
}

fn show(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no Causeway resources yet; try one of deploy/samples".to_owned();
    }
    let cells = rows.iter().map(|row| {
        [&row.kind, &row.namespace, &row.name, &row.ready, &row.reason, &row.message].map(Clone::clone)
    });
    table(["KIND", "NAMESPACE", "NAME", "READY", "REASON", "MESSAGE"], cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_says_what_is_not_ready_and_why() {
        let object = |name: &str, data: serde_json::Value| {
            let mut object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra", "metadata": {"name": name, "namespace": "a"},
            }))
            .unwrap();
            object.data = data;
            object
        };
        let condition = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "InvalidSpec", "message": "spec.cidr: write a CIDR"}]}});
        let rows =
            [Row::of("Infra", &object("x", condition)), Row::of("Infra", &object("longer-name", json!({})))];
        let text = show(&rows);
        assert!(
            text.contains("Infra  a          x            False  InvalidSpec  spec.cidr: write a CIDR"),
            "{text}"
        );
        assert!(text.ends_with("longer-name  -      NotYetSeen"), "{text}");
    }
}
