//! The `scale` subresource: replica counts of any kind that declares where it keeps them.

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::write::{self, Ownership, Part};
use super::{Call, body, read};
use crate::error::{ApiError, FieldError};
use crate::resource::Scale;
use crate::{object, patch};

pub(super) async fn scale(
    call: &mut Call<'_>,
    name: &str,
    method: &Method,
    bytes: bytes::Bytes,
) -> Result<Response, ApiError> {
    let Some(paths) = call.resource.subresources.scale.clone() else { return Err(ApiError::no_such_path()) };
    if *method == Method::GET {
        let stored = read::require(call, &call.key(name))?;
        return Ok(show(call, &of(&read::view(call.resource, &stored), &paths)));
    }
    let content_type = call.content_type().to_owned();
    let sent = if content_type == "application/json-patch+json" { Value::Null } else { call.decode(&bytes)? };
    let written = write::update(call, name, Part::Scale, Ownership::Track, |call, live| {
        let current = of(live, &paths);
        let wanted = match (method, content_type.as_str()) {
            (&Method::PUT, _) => sent.clone(),
            (_, "application/json-patch+json") => patch::json_patch(&current, &bytes)?,
            (_, "application/merge-patch+json" | "application/strategic-merge-patch+json") => {
                patch::merge_patch(&current, &sent)?
            }
            (_, other) => {
                return Err(ApiError::unsupported_media_type(format!(
                    "scale can't be patched with {other:?}"
                )));
            }
        };
        let mut new = live.clone();
        let revision = object::meta(&wanted, "resourceVersion");
        if !revision.is_empty() {
            object::metadata_mut(&mut new).insert("resourceVersion".into(), json!(revision));
        }
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 {
            let error =
                FieldError::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
            return Err(ApiError::invalid("autoscaling", "Scale", &call.key(name).name, &[error]));
        }
        set_path(&mut new, &paths.spec_replicas, json!(replicas));
        Ok(new)
    })
    .await?;
    Ok(show(call, &of(&written.into_value(call.resource), &paths)))
}

fn show(call: &Call<'_>, scale: &Value) -> Response {
    body::respond(StatusCode::OK, scale, call.headers, call.options.pretty)
}

pub(super) fn of(object: &Value, paths: &Scale) -> Value {
    let count = |path: &str| object::at_path(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let mut status = json!({"replicas": count(&paths.status_replicas)});
    let selector = paths.label_selector.as_deref().and_then(|path| object::at_path(object, path));
    if let Some(text) = selector.and_then(selector_text) {
        status["selector"] = Value::String(text);
    }
    // As in Kubernetes, none at all are not said.
    let replicas = count(&paths.spec_replicas);
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": spec, "status": status,
    })
}

/// A selector in the text form that autoscalers parse: given as text, or as a `LabelSelector`.
fn selector_text(selector: &Value) -> Option<String> {
    if let Some(text) = selector.as_str() {
        return Some(text.to_owned());
    }
    let mut parts: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str()?;
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    Some(parts.join(","))
}

fn set_path(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    let mut parts = path.split('.').filter(|p| !p.is_empty()).peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            if let Some(map) = at.as_object_mut() {
                map.insert(part.to_owned(), value);
            }
            return;
        }
        object::map_at(at, part);
        at = &mut at[part];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_shows_counts_and_selector() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}, "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["x", "y"]}, {"key": "old", "operator": "DoesNotExist"}]}},
            "status": {"replicas": 2},
        });
        let paths = Scale {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            label_selector: Some("spec.selector".into()),
        };
        let scale = of(&object, &paths);
        assert_eq!(scale["spec"]["replicas"], 3);
        assert_eq!(scale["status"]["replicas"], 2);
        assert_eq!(scale["status"]["selector"], "app=a,tier in (x,y),!old");
        assert!(scale["metadata"].get("labels").is_none());
    }

    #[test]
    fn a_missing_path_is_made() {
        let mut object = json!({});
        set_path(&mut object, "spec.size.count", json!(4));
        assert_eq!(object, json!({"spec": {"size": {"count": 4}}}));
    }
}
