//! The bundle by which OLM installs the operator: what the chart makes of its values, in OLM's form. OLM makes the operator's account,
//! its rights and its Deployment of the ClusterServiceVersion; what it does not take at all is written beside the bundle.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use causeway_api::names;
use causeway_chart::{Chart, Document, Release};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

const FOLDER: &str = "deploy/bundle";
/// The folders of it that hold nothing else.
pub(crate) const DIRECTORIES: [&str; 2] = ["deploy/bundle/manifests", "deploy/bundle/metadata"];
const BESIDE: &str = "deploy/beside-bundle.yaml";
const DOCKERFILE: &str = "deploy/bundle.Dockerfile";
const HEADER: &str =
    "# Generated from deploy/chart and deploy/samples by `cargo xtask crds`; change those.\n";
const PACKAGE: &str = "causeway";
const CHANNEL: &str = "candidate";

const ABOUT: &str = "\
Causeway carries traffic across network boundaries, declared as Kubernetes resources.

- **Isolated networks and the pod network**: `Infra`, `ProxyServer`, `DNSServer` and `DHCPServer` give machines on a VLAN names, addresses \
and a way to Services. They need Multus.
- **The cluster and developers' machines**: `Workstation` and `InterceptRequest` send requests of the cluster to code on a laptop.
- **The internet and the cluster**: `GatewayHostnameRequest` publishes a hostname with certificate and DNS record; class `causeway` of the \
Gateway API is served by Causeway's own gateways. They need the definitions of the Gateway API.

Install it into the namespace `causeway-system`. OLM carries neither namespaces nor admission policies: those are in `deploy/beside-bundle.yaml`. \
OLM itself lets everybody with the role `edit` in a namespace write all of these kinds there.";

/// By their paths in the repository.
pub(crate) fn files(
    root: &Path,
    chart: &Chart,
    crds: &BTreeMap<String, String>,
    min_kube_version: &str,
) -> anyhow::Result<BTreeMap<String, String>> {
    let version = env!("CARGO_PKG_VERSION");
    let release = Release {
        name: PACKAGE.to_owned(),
        namespace: names::NAMESPACE.to_owned(),
        service: "OLM".to_owned(),
    };
    // With what OpenShift needs, which is in nobody's way elsewhere.
    let values = json!({"crds": {"enabled": false}, "openshift": true});
    let documents = chart.render(&release, &values).context("rendering the chart for OLM")?;
    let mut files = BTreeMap::new();
    for (path, text) in crds {
        if let Some(name) = path.strip_prefix("deploy/crds/") {
            files.insert(format!("{FOLDER}/manifests/{name}"), text.clone());
        }
    }
    let account = documents.iter().find(|one| one.kind() == "Deployment").map(account_of);
    let account = account.flatten().context("the chart has no Deployment with an account")?;
    let bindings = bindings_of(&documents, &account);
    let (mut cluster_rules, mut rules, mut deployments) = (Vec::new(), Vec::new(), Vec::new());
    let mut beside = Vec::new();
    for document in &documents {
        let (kind, object) = (document.kind(), &document.object);
        match kind {
            "ClusterRole" | "Role" if bindings.contains(&(kind, document.name())) => {
                let list = if kind == "Role" { &mut rules } else { &mut cluster_rules };
                list.extend(object["rules"].as_array().into_iter().flatten().cloned());
            }
            // OLM makes these itself.
            "ClusterRoleBinding" | "RoleBinding" if bindings.contains(&role_of(object)) => {}
            "ServiceAccount" if document.name() == account => {}
            "Deployment" => deployments.push(json!({
                "name": document.name(), "label": object["metadata"]["labels"], "spec": object["spec"],
            })),
            "Namespace" | "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => {
                beside.push(plain(object));
            }
            "ClusterRole" | "ClusterRoleBinding" | "Service" | "PodDisruptionBudget" => {
                let name = document.name().replace(':', "-");
                let path = format!("{FOLDER}/manifests/{name}_{}.yaml", kind.to_lowercase());
                files.insert(path, yaml(&plain(object))?);
            }
            _ => bail!("how does OLM come by {kind} {}? Say it in xtask/src/bundle.rs", document.name()),
        }
    }
    let permissions = |rules: Vec<Value>| json!([{"serviceAccountName": account, "rules": rules}]);
    let install = json!({"strategy": "deployment", "spec": {
        "clusterPermissions": permissions(cluster_rules),
        "permissions": permissions(rules),
        "deployments": deployments,
    }});
    let csv = service_version(root, version, min_kube_version, install)?;
    files.insert(format!("{FOLDER}/manifests/causeway.clusterserviceversion.yaml"), yaml(&csv)?);
    let labels = labels();
    files.insert(format!("{FOLDER}/metadata/annotations.yaml"), yaml(&json!({"annotations": labels}))?);
    files.insert(DOCKERFILE.to_owned(), dockerfile(&labels));
    let beside = beside.iter().map(serde_saphyr::to_string).collect::<Result<Vec<_>, _>>()?;
    let beside: Vec<&str> = beside.iter().map(|text| text.trim_end()).collect();
    let header = format!(
        "# What OLM does not take, and the bundle in {FOLDER} counts on: kubectl apply -f {BESIDE}\n{HEADER}"
    );
    files.insert(BESIDE.to_owned(), format!("{header}{}\n", beside.join("\n---\n")));
    Ok(files)
}

fn service_version(
    root: &Path,
    version: &str,
    min_kube_version: &str,
    install: Value,
) -> anyhow::Result<Value> {
    let definitions = causeway_api::crds();
    let image = &install["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"];
    let examples = serde_json::to_string_pretty(&examples(root, &definitions)?)?;
    let internal: Vec<&str> = definitions
        .iter()
        .filter(|crd| description(crd).starts_with("Written by the operator"))
        .filter_map(|crd| crd.metadata.name.as_deref())
        .collect();
    let icon = fs::read(root.join("deploy/icon.svg")).context("reading deploy/icon.svg")?;
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        .map(|mode| json!({"type": mode, "supported": mode == "AllNamespaces"}));
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{PACKAGE}.v{version}"),
            "annotations": {
                "alm-examples": examples,
                "capabilities": "Seamless Upgrades",
                "categories": "Networking",
                "containerImage": image,
                "description": "Carries traffic across network boundaries, declared as Kubernetes resources.",
                "operatorframework.io/suggested-namespace": names::NAMESPACE,
                "operators.operatorframework.io/internal-objects": serde_json::to_string(&internal)?,
            },
        },
        "spec": {
            "displayName": "Causeway",
            "description": ABOUT,
            "version": version,
            "maturity": "alpha",
            "minKubeVersion": min_kube_version,
            "keywords": ["networking", "proxy", "gateway", "intercept", "tunnel"],
            "provider": {"name": "The Causeway authors"},
            "icon": [{
                "base64data": base64::engine::general_purpose::STANDARD.encode(icon),
                "mediatype": "image/svg+xml",
            }],
            "installModes": modes,
            "install": install,
            "customresourcedefinitions": {"owned": owned(&definitions)},
            "relatedImages": [
                {"name": "causeway", "image": image},
                {"name": "envoy", "image": names::ENVOY_IMAGE},
            ],
        },
    }))
}

fn owned(definitions: &[CustomResourceDefinition]) -> Vec<Value> {
    let one = |crd: &CustomResourceDefinition| {
        json!({
            "name": crd.metadata.name,
            "kind": crd.spec.names.kind,
            "version": names::VERSION,
            "displayName": crd.spec.names.kind,
            "description": description(crd),
        })
    };
    definitions.iter().map(one).collect()
}

fn description(crd: &CustomResourceDefinition) -> &str {
    let schema = crd.spec.versions.first().and_then(|version| version.schema.as_ref());
    let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
    schema.and_then(|schema| schema.description.as_deref()).unwrap_or_default()
}

/// A sample of each kind that has one: of the smallest first.
fn examples(root: &Path, definitions: &[CustomResourceDefinition]) -> anyhow::Result<Vec<Value>> {
    let folder = root.join("deploy/samples");
    let entries = fs::read_dir(&folder).context("reading deploy/samples")?;
    let mut samples = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        samples.push((!path.to_string_lossy().contains("-minimal"), path, text));
    }
    samples.sort();
    let objects: Vec<Value> = samples
        .iter()
        .flat_map(|(_, _, text)| text.split("\n---\n"))
        .filter_map(|text| serde_saphyr::from_str::<Value>(text).ok())
        .filter(|object| object["apiVersion"] == format!("{}/{}", names::GROUP, names::VERSION))
        .collect();
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).cloned();
    Ok(definitions.iter().filter_map(|crd| of_kind(&crd.spec.names.kind)).collect())
}

/// The account of a Deployment's pods.
fn account_of(deployment: &Document) -> Option<String> {
    let account = &deployment.object["spec"]["template"]["spec"]["serviceAccountName"];
    account.as_str().map(str::to_owned)
}

/// Kind and name of the roles that this account has.
fn bindings_of<'a>(documents: &'a [Document], account: &str) -> Vec<(&'a str, &'a str)> {
    let bindings = documents.iter().filter(|one| one.kind().ends_with("Binding"));
    let of_account = bindings.filter(|one| one.object["subjects"][0]["name"] == account);
    of_account.map(|one| role_of(&one.object)).collect()
}

fn role_of(binding: &Value) -> (&str, &str) {
    let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
    (text("kind"), text("name"))
}

/// Without the namespace, which OLM chooses, and without words for Helm.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !key.starts_with("helm.sh/"));
        }
        if metadata.get("annotations") == Some(&json!({})) {
            metadata.remove("annotations");
        }
    }
    object
}

/// What a bundle says of itself, in its image and beside its manifests.
fn labels() -> Map<String, Value> {
    [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", PACKAGE),
        ("channels.v1", CHANNEL),
        ("channel.default.v1", CHANNEL),
    ]
    .into_iter()
    .map(|(key, value)| (format!("operators.operatorframework.io.bundle.{key}"), json!(value)))
    .collect()
}

fn dockerfile(labels: &Map<String, Value>) -> String {
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("LABEL {key}={}\n", value.as_str().unwrap_or_default()))
        .collect();
    format!(
        "# The bundle's image: docker build -f {DOCKERFILE} deploy\n{HEADER}FROM scratch\n{}COPY bundle/manifests /manifests/\n\
         COPY bundle/metadata /metadata/\n",
        labels.concat()
    )
}

fn yaml(value: &Value) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(value).context("writing YAML")?;
    Ok(format!("{HEADER}{}\n", text.trim_end()))
}
