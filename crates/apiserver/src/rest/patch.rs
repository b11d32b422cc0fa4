//! Patching: the four patch types, each a pure function from the live object to the wanted one.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::Call;
use super::write::{self, Ownership, Part};
use crate::error::{ApiError, Details, FieldError};
use crate::object;
use crate::patch::{self, Manager, Operation};

const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// Custom resources take all but the strategic one.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    STRATEGIC,
    "application/apply-patch+yaml",
];

enum Kind {
    Json(bytes::Bytes),
    Merge(Value),
    Strategic(Value),
}

pub(super) async fn patch(
    call: &mut Call<'_>,
    name: &str,
    part: Part,
    bytes: bytes::Bytes,
) -> Result<Response, ApiError> {
    let kind = match call.content_type() {
        "application/json-patch+json" => Kind::Json(bytes),
        "application/merge-patch+json" => Kind::Merge(call.decode(&bytes)?),
        STRATEGIC if !call.resource.is_custom() => Kind::Strategic(call.decode(&bytes)?),
        "application/apply-patch+yaml" => return apply(call, name, part, &bytes).await,
        other => {
            if !PATCHES.contains(&other) {
                let mut error = ApiError::unsupported_media_type("415: Unsupported Media Type");
                error.details = Some(Details::default());
                return Err(error);
            }
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                PATCHES.into_iter().filter(|patch| *patch != STRATEGIC).collect::<Vec<_>>().join(", "),
            )));
        }
    };
    let written = write::update(call, name, part, Ownership::Track, |call, live| match &kind {
        Kind::Json(patch) => patch::json_patch(live, patch),
        Kind::Merge(patch) => patch::merge_patch(live, patch),
        Kind::Strategic(patch) => patch::strategic_merge(live, patch, &call.resource.schema.root),
    })
    .await?;
    Ok(written.show(call, StatusCode::OK))
}

async fn apply(call: &mut Call<'_>, name: &str, part: Part, bytes: &[u8]) -> Result<Response, ApiError> {
    if call.options.field_manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let mut applied = call.decode(bytes)?;
    check_identity(call, &applied, name)?;
    if let Some(field) = write::undeclared(call.resource, &applied) {
        let why = format!(".{field}: field not declared in schema");
        return Err(patch::untypable(&applied, &why));
    }
    write::clean(call, &mut applied)?;
    if let Some(map) = applied.as_object_mut() {
        match part {
            Part::Status => {
                map.retain(|k, _| matches!(k.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
            }
            Part::Main | Part::Scale if call.resource.subresources.status => drop(map.remove("status")),
            Part::Main | Part::Scale => {}
        }
    }
    let key = call.key(name);
    if call.server.store.get(&key).is_none() {
        if part == Part::Status {
            return Err(call.not_found(name));
        }
        if object::name(&applied).is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        let uid = object::meta(&applied, "uid");
        if !uid.is_empty() {
            return Err(ApiError::conflict(
                &call.resource.group,
                &call.resource.plural,
                name,
                &format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        let mut merged = with_manager(call, part, |call, manager| {
            patch::apply(None, &applied, &call.resource.schema.root, manager, force(call))
        })?;
        // As Kubernetes has it, a revision is for an object that is there; where none is, one is made.
        object::metadata_mut(&mut merged).remove("resourceVersion");
        match write::create(call, merged, Ownership::Recorded).await {
            Err(error) if error.reason == crate::error::Reason::AlreadyExists => {}
            created => return created.map(|object| object.show(call, StatusCode::CREATED)),
        }
    }
    let written = write::update(call, name, part, Ownership::Recorded, |call, live| {
        let mut merged = with_manager(call, part, |call, manager| {
            patch::apply(Some(live), &applied, &call.resource.schema.root, manager, force(call))
        })?;
        // Applying against a named revision is a precondition; without one the live revision is carried along.
        if let Some(given) = applied["metadata"].get("resourceVersion") {
            merged["metadata"]["resourceVersion"] = given.clone();
        }
        Ok(merged)
    })
    .await?;
    Ok(written.show(call, StatusCode::OK))
}

fn force(call: &Call<'_>) -> bool {
    call.options.force.unwrap_or(false)
}

fn with_manager<T>(
    call: &Call<'_>,
    part: Part,
    f: impl FnOnce(&Call<'_>, &Manager<'_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let api_version = call.resource.api_version();
    let manager = Manager {
        name: &call.options.field_manager,
        operation: Operation::Apply,
        api_version: &api_version,
        subresource: part.subresource(),
        now: &call.now,
        of_built_in: !call.resource.is_custom(),
    };
    f(call, &manager)
}

/// An applied configuration names its type and, if at all, the object of the URL.
fn check_identity(call: &Call<'_>, applied: &Value, name: &str) -> Result<(), ApiError> {
    for (field, expected) in
        [("apiVersion", call.resource.api_version()), ("kind", call.resource.kind.clone())]
    {
        if applied[field] != json!(expected) {
            return Err(ApiError::bad_request(format!(
                "invalid object type: {field} must be {expected:?} in the applied configuration, found {}",
                applied[field]
            )));
        }
    }
    let given = object::name(applied);
    if !given.is_empty() && given != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}
