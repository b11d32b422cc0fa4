//! Reading: one object, or a page of a list on a consistent snapshot.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::{BufMut, BytesMut};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Call, body};
use crate::error::{ApiError, FieldError, Reason};
use crate::request::Options;
use crate::resource::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::store::{Key, Snapshot, Store, Stored};
use crate::table::{self, Form, IncludeObject};

/// A stored object in the version a request asked for.
pub(crate) fn view(resource: &Resource, stored: &Stored) -> Value {
    let mut value = stored.value();
    present(resource, &mut value);
    value
}

/// A stored object as an item of a list: as Kubernetes does, without its type unless it is a custom resource.
fn item(resource: &Resource, stored: &Stored) -> Value {
    let mut value = view(resource, stored);
    if let Some(members) = value.as_object_mut().filter(|_| !resource.is_custom()) {
        members.remove("apiVersion");
        members.remove("kind");
    }
    value
}

/// Turns a stored tree into the resource's version.
pub(super) fn present(resource: &Resource, value: &mut Value) {
    if !resource.is_stored_form() {
        resource.strategy.convert_from_storage(value);
        value["apiVersion"] = Value::String(resource.api_version());
    }
}

/// Which objects a list, watch or collection delete speaks of.
pub(super) struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub(super) fn parse(resource: &Resource, options: &Options) -> Result<Self, ApiError> {
        Ok(Self {
            labels: LabelSelector::parse(&options.label_selector)?,
            fields: FieldSelector::parse(&options.field_selector, &resource.selectable_fields)?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, resource: &Resource, stored: &Stored) -> bool {
        self.labels.matches(&stored.labels)
            && match self.fields.exact_name() {
                Some(name) if name != &*stored.key.name => false,
                _ => self.fields.is_empty() || self.fields.matches(resource, &view(resource, stored)),
            }
    }
}

pub(super) fn get(call: &Call<'_>, name: &str) -> Result<Response, ApiError> {
    let key = call.key(name);
    let asked = parse_revision(&call.options.resource_version)?;
    let current = call.server.store.revision();
    if asked > current {
        return Err(ApiError::revision_to_come(asked, current));
    }
    let stored = call.server.store.get(&key).ok_or_else(|| call.not_found(name))?;
    if matches!(call.form, Form::MetadataList(_)) {
        let message = "you requested PartialObjectMetadataList, but the requested object is not a list";
        return Err(ApiError::new(406, Reason::NotAcceptable, message));
    }
    Ok(show_stored(call, StatusCode::OK, &stored))
}

/// The object that a request leaves behind.
pub(super) enum Answer {
    Saved(Arc<Stored>),
    /// A dry run: in the version of the request.
    Unsaved(Value),
}

impl Answer {
    /// The object in the version of the request.
    pub(super) fn into_value(self, resource: &Resource) -> Value {
        match self {
            Self::Saved(stored) => view(resource, &stored),
            Self::Unsaved(value) => value,
        }
    }

    pub(super) fn show(&self, call: &Call<'_>, code: StatusCode) -> Response {
        match self {
            Self::Saved(stored) => show_stored(call, code, stored),
            Self::Unsaved(value) => show(call, code, value),
        }
    }
}

/// A stored object; its text is sent as it is where the client takes it so.
fn show_stored(call: &Call<'_>, code: StatusCode, stored: &Stored) -> Response {
    let as_it_is = call.form == Form::Whole
        && call.resource.is_stored_form()
        && !call.options.pretty
        && !call.accept().starts_with("application/yaml");
    if as_it_is {
        return body::raw(code, "application/json", Body::from(stored.json.clone()));
    }
    show(call, code, &view(call.resource, stored))
}

/// One object in the form the client accepts: itself, a table, or its metadata.
pub(super) fn show(call: &Call<'_>, code: StatusCode, value: &Value) -> Response {
    let shown = match call.form {
        Form::Whole => None,
        Form::Table(version) => {
            let include = include_object(call);
            let now = jiff::Timestamp::now();
            let items = std::slice::from_ref(value);
            Some(table::render(version, call.resource, items, &value["metadata"], include, now, true))
        }
        Form::Metadata(version) | Form::MetadataList(version) => Some(table::metadata(version, value)),
    };
    body::respond(code, shown.as_ref().unwrap_or(value), call.headers, call.options.pretty)
}

/// What of an object goes into its table row.
pub(super) fn include_object(call: &Call<'_>) -> IncludeObject {
    IncludeObject::parse(&call.options.include_object).unwrap_or_default()
}

/// Where a paged list stopped.
#[derive(Serialize, Deserialize)]
struct Continue {
    revision: u64,
    after: (String, String),
}

pub(super) fn list(call: &Call<'_>) -> Result<Response, ApiError> {
    check_match(call.options)?;
    let filter = Filter::parse(call.resource, call.options)?;
    let (snapshot, after) = snapshot(&call.server.store, call)?;
    let namespace = call.namespace.as_deref();
    let start = match &after {
        None => 0,
        Some((ns, name)) => {
            snapshot.items.partition_point(|o| (&*o.key.namespace, &*o.key.name) <= (ns, name))
        }
    };
    let mut page: Vec<Arc<Stored>> = Vec::new();
    let (mut next, mut remaining) = (None, None);
    let limit = call.options.limit as usize;
    for (i, item) in snapshot.items.iter().enumerate().skip(start) {
        if !filter.matches(call.resource, item) {
            continue;
        }
        if limit > 0 && page.len() == limit {
            next = page.last().map(|last| Continue {
                revision: snapshot.revision,
                after: (last.key.namespace.to_string(), last.key.name.to_string()),
            });
            // With selectors the rest would have to be matched first; Kubernetes leaves the count out then.
            remaining = filter.is_empty().then(|| snapshot.items.len() - i);
            break;
        }
        page.push(item.clone());
    }
    debug_assert!(namespace.is_none() || page.iter().all(|o| Some(&*o.key.namespace) == namespace));
    let mut meta = json!({"resourceVersion": snapshot.revision.to_string()});
    // Kubernetes says of custom resources that there is nothing more, of others it says nothing.
    if call.resource.is_custom() && call.form == Form::Whole {
        meta["continue"] = json!("");
    }
    if let Some(next) = next {
        let token = serde_json::to_vec(&next).map_err(|e| ApiError::internal(e.to_string()))?;
        meta["continue"] = Value::String(BASE64_URL_SAFE_NO_PAD.encode(token));
        if let Some(remaining) = remaining {
            meta["remainingItemCount"] = json!(remaining);
        }
    }
    Ok(send_list(call, &page, meta))
}

/// The snapshot a list reads: the present, or the revision of its continue token.
fn snapshot(store: &Store, call: &Call<'_>) -> Result<(Snapshot, Option<(String, String)>), ApiError> {
    let options = call.options;
    let (resource, namespace) = (call.collection(), call.namespace.as_deref());
    if !options.continue_token.is_empty() {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(message));
        }
        let token: Continue = BASE64_URL_SAFE_NO_PAD
            .decode(&options.continue_token)
            .ok()
            .and_then(|json| serde_json::from_slice(&json).ok())
            .ok_or_else(|| {
                ApiError::bad_request(
                    "continue key is not valid: it must be the one the server gave with the previous page",
                )
            })?;
        let snapshot = store.list_at(&resource, namespace, token.revision).map_err(|_| {
            ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
            )
        })?;
        return Ok((snapshot, Some(token.after)));
    }
    let present = store.list(&resource, namespace);
    let asked = parse_revision(&options.resource_version)?;
    if asked > present.revision {
        return Err(ApiError::revision_to_come(asked, present.revision));
    }
    match options.resource_version_match.as_str() {
        "" | "NotOlderThan" => Ok((present, None)),
        _ => match store.list_at(&resource, namespace, asked) {
            Ok(snapshot) => Ok((snapshot, None)),
            Err(gone) => Err(ApiError::expired(format!(
                "The resourceVersion for the provided list is too old: {gone}."
            ))),
        },
    }
}

/// Whether the options of a list belong together; in Kubernetes' words.
fn check_match(options: &Options) -> Result<(), ApiError> {
    let forbidden = |detail: &str| Some(FieldError::forbidden("resourceVersionMatch", detail));
    let mismatch = match (options.resource_version_match.as_str(), options.resource_version.as_str()) {
        ("", _) => None,
        (_, "") => forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
        _ if !options.continue_token.is_empty() => {
            forbidden("resourceVersionMatch is forbidden when continue is provided")
        }
        ("Exact", "0") => forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ("Exact" | "NotOlderThan", _) => None,
        (other, _) => {
            let known = ["Exact", "NotOlderThan", ""];
            Some(FieldError::not_supported("resourceVersionMatch", &json!(other), &known))
        }
    };
    let streamed = options
        .send_initial_events
        .is_some()
        .then(|| FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    let errors: Vec<FieldError> = mismatch.into_iter().chain(streamed).collect();
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

/// An absent or `0` version means "any".
pub(super) fn parse_revision(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "Invalid value: {text:?}: resourceVersion must be a number this server gave"
        ))
    })
}

/// A whole list; the stored text of the items is copied as it is where the versions agree.
pub(super) fn send_list(call: &Call<'_>, page: &[Arc<Stored>], meta: Value) -> Response {
    let resource = call.resource;
    let all = || -> Vec<Value> { page.iter().map(|o| view(resource, o)).collect() };
    let items = || -> Vec<Value> { page.iter().map(|o| item(resource, o)).collect() };
    let list = match call.form {
        Form::Table(version) => {
            let now = jiff::Timestamp::now();
            Some(table::render(version, resource, &all(), &meta, include_object(call), now, true))
        }
        Form::Metadata(version) | Form::MetadataList(version) => {
            Some(table::metadata_list(version, &all(), &meta))
        }
        Form::Whole if call.options.pretty || call.accept().starts_with("application/yaml") => Some(json!({
            "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": meta, "items": items(),
        })),
        Form::Whole => None,
    };
    if let Some(list) = list {
        return body::respond(StatusCode::OK, &list, call.headers, call.options.pretty);
    }
    let convert = !resource.is_stored_form();
    let mut out = BytesMut::with_capacity(256 + page.iter().map(|o| o.json.len() + 1).sum::<usize>());
    out.put_slice(
        format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
            Value::from(resource.list_kind.as_str()),
            Value::from(resource.api_version()),
        )
        .as_bytes(),
    );
    for (i, object) in page.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        if convert {
            out.put_slice(item(resource, object).to_string().as_bytes());
        } else if resource.is_custom() {
            out.put_slice(&object.json);
        } else {
            out.put_u8(b'{');
            out.put_slice(object.untyped());
        }
    }
    out.put_slice(b"]}");
    body::raw(StatusCode::OK, "application/json", Body::from(out.freeze()))
}

/// An object that must exist.
pub(super) fn require(call: &Call<'_>, key: &Key) -> Result<Arc<Stored>, ApiError> {
    call.server.store.get(key).ok_or_else(|| call.not_found(&key.name))
}
