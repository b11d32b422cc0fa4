//! The Gateway API's definitions, as its project publishes them: the kinds that class `causeway` is about, in JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use causeway_testkit::kubernetes;
use serde_json::Value;

/// Where the embedded server has them from.
pub(crate) const DIRECTORY: &str = "crates/apiserver/gateway-api";

const PLURALS: [&str; 10] = [
    "backendtlspolicies",
    "gatewayclasses",
    "gateways",
    "grpcroutes",
    "httproutes",
    "listenersets",
    "referencegrants",
    "tcproutes",
    "tlsroutes",
    "udproutes",
];

/// Every file of the directory, by its path in the repository, from the Go module that the tests' clusters have them from.
pub(crate) fn files() -> anyhow::Result<BTreeMap<String, String>> {
    let module = kubernetes::gateway_api_module().context("fetching the module of Gateway API")?;
    let licence = fs::read_to_string(module.join("LICENSE")).context("reading the module's licence")?;
    let mut files = BTreeMap::from([(format!("{DIRECTORY}/LICENSE"), licence)]);
    for plural in PLURALS {
        let name = format!("gateway.networking.k8s.io_{plural}");
        let from = module.join(kubernetes::GATEWAY_API_DEFINITIONS).join(format!("{name}.yaml"));
        files.insert(format!("{DIRECTORY}/{name}.json"), to_json(&from)?);
    }
    Ok(files)
}

fn to_json(file: &Path) -> anyhow::Result<String> {
    let name = file.display();
    let yaml = fs::read_to_string(file).with_context(|| format!("reading {name}"))?;
    let definition: Value = serde_saphyr::from_str(&yaml).with_context(|| format!("parsing {name}"))?;
    Ok(format!("{definition}\n"))
}
