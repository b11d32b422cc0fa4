//! Definitions as text: YAML for people and `kubectl apply`, small JSON for embedding.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

const HEADER: &str = "# Generated from crates/api by `cargo xtask crds`; change the types there.\n";

/// `GROUP_PLURAL`, as other generators name these files.
pub(crate) fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}", crd.spec.group, crd.spec.names.plural)
}

pub(crate) fn to_yaml(crd: &CustomResourceDefinition) -> anyhow::Result<String> {
    let name = file_name(crd);
    // Through a JSON value, so that keys have one order whatever the types' fields have.
    let value = serde_json::to_value(crd).with_context(|| format!("serializing {name}"))?;
    let yaml = serde_saphyr::to_string(&value).with_context(|| format!("writing {name} as YAML"))?;
    Ok(format!("{HEADER}{}\n", yaml.trim_end()))
}

pub(crate) fn to_json(crd: &CustomResourceDefinition) -> anyhow::Result<String> {
    let mut text = serde_json::to_string(crd).with_context(|| format!("serializing {}", file_name(crd)))?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_reads_back_as_the_same_definition() {
        for crd in causeway_api::crds() {
            let yaml = to_yaml(&crd).unwrap();
            let back: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
            assert_eq!(back, serde_json::to_value(&crd).unwrap(), "{}", file_name(&crd));
        }
    }
}
