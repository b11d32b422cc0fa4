//! What is made of the Helm chart: the manifests for those who use no Helm, OLM's bundle, and the list of its files for the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use causeway_chart::{Chart, Release, TENANTS};
use serde_json::{Value, json};

const CHART: &str = "deploy/chart";
/// Where the chart has the definitions: a link to `deploy/crds`.
const CRDS: &str = "files/crds";

const TENANTS_FILE: &str = "deploy/tenants.yaml";
const MANIFESTS: [(&str, bool); 2] =
    [("deploy/operator.yaml", false), ("deploy/operator-openshift.yaml", true)];

/// By their paths in the repository; `generated` has the definitions as they are now.
pub(crate) fn files(
    root: &Path,
    generated: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut chart = BTreeMap::new();
    read(&root.join(CHART), "", &mut chart)?;
    let mut list = String::from("[\n");
    for path in chart.keys() {
        writeln!(list, "    ({path:?}, include_str!(\"../../../{CHART}/{path}\")),")?;
    }
    for (path, text) in generated {
        if let Some(name) = path.strip_prefix("deploy/crds/") {
            writeln!(list, "    (\"{CRDS}/{name}\", include_str!(\"../../../{path}\")),")?;
            chart.insert(format!("{CRDS}/{name}"), text.clone());
        }
    }
    list.push_str("]\n");
    let about: Value = serde_saphyr::from_str(chart.get("Chart.yaml").map_or("", String::as_str))?;
    for field in ["version", "appVersion"] {
        let (says, is) = (about[field].as_str(), env!("CARGO_PKG_VERSION"));
        ensure!(says == Some(is), "{CHART}/Chart.yaml: {field} is to be {is}, not {says:?}");
    }
    let chart = Chart::of(chart);
    let mut files = BTreeMap::from([("crates/chart/src/files.in".to_owned(), list)]);
    for (path, is_openshift) in MANIFESTS {
        files.insert(path.to_owned(), manifest(&chart, path, is_openshift)?);
    }
    files.insert(TENANTS_FILE.to_owned(), tenants(&chart)?);
    let min_kube_version = about["kubeVersion"].as_str().map(|least| least.trim_start_matches(">="));
    let min_kube_version = min_kube_version.and_then(|least| least.strip_suffix("-0"));
    let min_kube_version =
        min_kube_version.with_context(|| format!("{CHART}/Chart.yaml: kubeVersion is to be >=X.Y.Z-0"))?;
    files.extend(crate::bundle::files(root, &chart, generated, min_kube_version)?);
    Ok(files)
}

/// What an administrator applies once, so that admins of namespaces can install operators for these. By name and label it is of no
/// installation: one for the whole cluster has the same roles, and takes them with it when it goes.
fn tenants(chart: &Chart) -> anyhow::Result<String> {
    let release =
        Release { name: "causeway".to_owned(), namespace: TENANTS.to_owned(), service: "kubectl".to_owned() };
    let documents =
        chart.render(&release, &json!({"rbac": {"tenants": true}})).context("rendering tenants")?;
    let of_people = documents.iter().filter(|one| one.name().starts_with("causeway:"));
    let renamed = of_people.map(|one| one.text.replace("  name: causeway:", "  name: causeway:tenants:"));
    let texts: Vec<String> = renamed.collect();
    let header = format!(
        "# So that admins of namespaces can use Causeway in these and install an operator for them:\n\
         #   kubectl apply --server-side -f deploy/crds -f {TENANTS_FILE}\n\
         # Generated from deploy/chart by `cargo xtask crds`; change the chart.\n"
    );
    Ok(format!("{header}{}\n", texts.join("\n---\n")))
}

fn manifest(chart: &Chart, path: &str, is_openshift: bool) -> anyhow::Result<String> {
    let release = Release {
        name: "causeway".to_owned(),
        namespace: "causeway-system".to_owned(),
        service: "kubectl".to_owned(),
    };
    let values = json!({
        "crds": {"enabled": false}, "namespace": {"create": true}, "openshift": is_openshift,
    });
    let documents = chart.render(&release, &values).with_context(|| format!("rendering {path}"))?;
    let what = if is_openshift { "OpenShift" } else { "a Kubernetes cluster (1.31 or newer)" };
    let header = format!(
        "# Causeway's operator on {what}. First the definitions, then this:\n\
         #   kubectl apply --server-side -f deploy/crds\n\
         #   kubectl apply -f {path}\n\
         # Replace the image by one that your nodes can pull, in both places; `cargo xtask image` builds it. `causeway install` and\n\
         # Helm (deploy/chart) have settings for this and more.\n\
         #\n\
         # Generated from deploy/chart by `cargo xtask crds`; change the chart.\n"
    );
    let texts: Vec<&str> = documents.iter().map(|document| document.text.as_str()).collect();
    Ok(format!("{header}{}\n", texts.join("\n---\n")))
}

/// The files of a folder, without what is generated and what is hidden.
fn read(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let (path, place) = (format!("{prefix}{name}"), folder.join(&name));
        if path == CRDS || name.starts_with('.') {
            continue;
        }
        if place.is_dir() {
            read(&place, &format!("{path}/"), found)?;
        } else {
            let text = fs::read_to_string(&place).with_context(|| format!("reading {}", place.display()))?;
            found.insert(path, text);
        }
    }
    Ok(())
}
