//! `causeway status`: every Causeway resource, whether it is ready and why not, as one table.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Config, ResourceExt};

use crate::parts::data_dir::{self, DataDirArg};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Ask this cluster instead of the control plane on this machine.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only this namespace [default: all].
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// End with an error if something is not ready.
    #[arg(long)]
    check: bool,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let client = client(&args.data_dir, args.kubeconfig.as_deref()).await?;
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
    print!("{}", table(&rows));
    let waiting = rows.iter().filter(|r| r.ready != "True").count();
    if args.check && waiting > 0 {
        bail!("{waiting} of {} resources are not ready", rows.len());
    }
    Ok(())
}

/// A client of the cluster that is named, or of the control plane on this machine.
pub async fn client(data_dir: &DataDirArg, kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let path = match kubeconfig {
        Some(path) => path.to_owned(),
        None => local_kubeconfig(&data_dir.path()?)?,
    };
    let kubeconfig =
        Kubeconfig::read_from(&path).with_context(|| format!("can't read {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("can't use {}", path.display()))?;
    Client::try_from(config).context("can't make a client")
}

/// The kubeconfig of the control plane on this machine, which must be running.
fn local_kubeconfig(dir: &Path) -> anyhow::Result<PathBuf> {
    if data_dir::holder(dir)?.is_none() {
        bail!(
            "nothing runs on {}; start it with `causeway up`, or name a cluster with --kubeconfig FILE",
            dir.display()
        );
    }
    Ok(data_dir::kubeconfig(dir))
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

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no Causeway resources yet; try one of deploy/samples\n".to_owned();
    }
    let head = ["KIND", "NAMESPACE", "NAME", "READY", "REASON", "MESSAGE"];
    let cells: Vec<[&str; 6]> = std::iter::once(head)
        .chain(rows.iter().map(|r| [&*r.kind, &*r.namespace, &*r.name, &*r.ready, &*r.reason, &*r.message]))
        .collect();
    let widths: Vec<usize> =
        (0..5).map(|i| cells.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &cells {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", row[5]);
    }
    text.lines().fold(String::new(), |all, line| all + line.trim_end() + "\n")
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
        let text = table(&rows);
        assert!(
            text.contains("Infra  a          x            False  InvalidSpec  spec.cidr: write a CIDR"),
            "{text}"
        );
        assert!(text.contains("longer-name  -      NotYetSeen\n"), "{text}");
    }
}
