//! The operator's defaults for pods, a `podTemplate` in a file.

use std::path::Path;

use anyhow::{Context, bail};
use causeway_api::PodTemplate;
use serde_json::Value;

/// Reads it; every field must be one that there is.
pub(super) fn read(path: &Path) -> anyhow::Result<PodTemplate> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is no podTemplate", path.display()))
}

fn parse(text: &str) -> anyhow::Result<PodTemplate> {
    if text.trim().is_empty() {
        return Ok(PodTemplate::default());
    }
    let written: Value = serde_saphyr::from_str(text)?;
    let template: PodTemplate = serde_json::from_value(written.clone())?;
    let known = serde_json::to_value(&template)?;
    let is_empty = |value: &Value| {
        value.is_null()
            || value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    let mut fields = written.as_object().into_iter().flatten();
    if let Some((field, _)) = fields.find(|(field, value)| known.get(field).is_none() && !is_empty(value)) {
        bail!("it has no field `{field}`: `kubectl explain proxyserver.spec.podTemplate` lists them");
    }
    Ok(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_does_not_exist_is_an_error() {
        let template = parse("nodeSelector: {disk: ssd}\nresources: {limits: {cpu: 1}}\n").unwrap();
        assert_eq!(template.node_selector["disk"], "ssd");
        assert_eq!(parse("").unwrap(), PodTemplate::default());
        assert!(parse("nodeSelectors: {disk: ssd}").unwrap_err().to_string().contains("nodeSelectors"));
        parse("tolerations: 5").unwrap_err();
    }
}
