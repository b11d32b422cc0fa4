//! Writing: everything an object goes through between a request's body and the store, for create and update.
//!
//! prune → carry over what the writer may not touch → default → admit → validate → field ownership → store.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::read::Answer;
use super::{Call, Vetted, names, pods, read, scale};
use crate::admission::policies::{Act, GROUP, Other};
use crate::error::{ApiError, Cause, FieldError, FieldErrorKind};
use crate::patch::{Manager, Operation, keep_times_if_unchanged, track_update};
use crate::request::FieldValidation;
use crate::resource::Resource;
use crate::store::{Expect, GroupResource, Key, Mutation, Stored, WriteError};
use crate::{builtin, object};

/// How often a patch is tried again when another writer was faster.
pub(super) const ATTEMPTS: usize = 50;

/// How deep an object may nest. What is stored is parsed again, by a parser that stops at 128 levels, and field
/// ownership repeats the object's nesting a few levels down.
const MAX_DEPTH: usize = 100;

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
    /// The replica count of the main part, set through the `scale` subresource.
    Scale,
}

impl Part {
    pub(super) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
        }
    }
}

/// How the writer's fields are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Compare with the live object and record what changed.
    Track,
    /// The object comes from server-side apply, which recorded it already.
    Recorded,
}

/// Creates an object from a request's body.
pub(super) async fn create(
    call: &mut Call<'_>,
    body: Value,
    ownership: Ownership,
) -> Result<Answer, ApiError> {
    let value = admit_new(call, body, ownership)?;
    let prefix = object::meta(&value, "generateName");
    if !object::name(&value).is_empty() || prefix.is_empty() {
        let key = call.key(object::name(&value));
        call.check_policies(Act::Create, None, &key.name, Some(Cow::Borrowed(&value)), None)?;
        return create_as(call, key, value).await;
    }
    let warned = call.warnings.len();
    for _ in 0..8 {
        let mut candidate = value.clone();
        candidate["metadata"]["name"] = Value::String(names::generate(prefix));
        let key = call.key(object::name(&candidate));
        call.check_policies(Act::Create, None, "", Some(Cow::Borrowed(&candidate)), None)?;
        match create_as(call, key, candidate).await {
            Err(error) if error.reason == crate::error::Reason::AlreadyExists => {
                call.warnings.truncate(warned);
            }
            other => return other,
        }
    }
    Err(ApiError::conflict(
        &call.resource.group,
        &call.resource.plural,
        prefix,
        "no free name could be generated; try again",
    ))
}

/// Creates under a name that is settled; a dry run only looks whether it is free.
async fn create_as(call: &Call<'_>, key: Key, value: Value) -> Result<Answer, ApiError> {
    if !call.options.dry_run {
        return put(call, key, Expect::Absent, value).await.map(Answer::Saved);
    }
    if (call.resource.group.as_str(), call.resource.plural.as_str()) == ("", "services") {
        call.server.cluster_ips.give_back(&value);
    }
    match call.server.store.get(&key) {
        Some(_) => Err(write_error(call.resource, &key.name, WriteError::Exists)),
        None => Ok(Answer::Unsaved(value)),
    }
}

async fn put(call: &Call<'_>, key: Key, expect: Expect, mut value: Value) -> Result<Arc<Stored>, ApiError> {
    to_storage(call.resource, &mut value);
    let name = key.name.clone();
    let stored = call
        .server
        .store
        .write(key, expect, Mutation::Put(value))
        .await
        .map_err(|e| write_error(call.resource, &name, e))?;
    call.server.after_write(&stored);
    Ok(stored)
}

/// What the store says, as a `Status`.
pub(super) fn write_error(resource: &Resource, name: &str, error: WriteError) -> ApiError {
    let (group, plural) = (&resource.group, &resource.plural);
    match error {
        WriteError::Exists => ApiError::already_exists(group, plural, name),
        WriteError::Stale => ApiError::modified(group, plural, name),
        other => ApiError::internal(other.to_string()),
    }
}

/// An object of one version of a resource in another.
pub(crate) fn convert(from: &Resource, to: &Resource, mut value: Value) -> Value {
    to_storage(from, &mut value);
    read::present(to, &mut value);
    value
}

fn to_storage(resource: &Resource, value: &mut Value) {
    if !resource.is_stored_form() {
        resource.strategy.convert_to_storage(value);
        value["apiVersion"] = Value::String(if resource.storage_group.is_empty() {
            resource.storage_version.clone()
        } else {
            format!("{}/{}", resource.storage_group, resource.storage_version)
        });
    }
}

fn admit_new(call: &mut Call<'_>, mut value: Value, ownership: Ownership) -> Result<Value, ApiError> {
    let resource = call.resource;
    check_type(resource, &value)?;
    place(call, &mut value)?;
    clean(call, &mut value)?;
    let meta = object::metadata_mut(&mut value);
    if meta.get("resourceVersion").is_some_and(|v| v.as_str().is_some_and(|s| !s.is_empty())) {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    for field in
        ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
    {
        meta.remove(field);
    }
    meta.insert("uid".into(), json!(names::uid()));
    meta.insert("creationTimestamp".into(), json!(call.now));
    if meta.get("name").is_some_and(|v| v.as_str() == Some("")) {
        meta.remove("name");
    }
    if resource.subresources.status
        && let Some(map) = value.as_object_mut()
    {
        map.remove("status");
    }
    if resource.strategy.has_generation() {
        object::metadata_mut(&mut value).insert("generation".into(), json!(1));
    }
    let owners = (ownership == Ownership::Track).then(|| owners(call, None, value.clone(), Part::Main));
    fill_in(resource, &mut value, None);
    call.server.admit(call, &mut value, None)?;
    validate(call, &value, None)?;
    call.server.check_param_access(call, &value, None)?;
    check_namespace(call, &value)?;
    if let Some(owners) = owners {
        set_owners(&mut value, owners);
    }
    Ok(value)
}

/// Changes an object: `change` makes the wanted state from the live one, and is asked again when another writer was
/// faster, unless the wanted state names the revision it was made from.
pub(super) async fn update(
    call: &mut Call<'_>,
    name: &str,
    part: Part,
    ownership: Ownership,
    mut change: impl FnMut(&Call<'_>, &Value) -> Result<Value, ApiError>,
) -> Result<Answer, ApiError> {
    let key = call.key(name);
    for _ in 0..ATTEMPTS {
        let stored = read::require(call, &key)?;
        let live = read::view(call.resource, &stored);
        let wanted = change(call, &live)?;
        let pinned = check_revision(call, &wanted, &stored)?;
        let new = admit_change(call, wanted, &live, part, ownership)?;
        check_policies(call, name, part, &new, &live)?;
        if new == live {
            return Ok(Answer::Saved(stored));
        }
        let removed = is_finished(&new);
        if call.options.dry_run {
            return Ok(Answer::Unsaved(new));
        }
        let mut kept = new;
        to_storage(call.resource, &mut kept);
        let mutation = if removed { Mutation::Delete(kept) } else { Mutation::Put(kept) };
        match call.server.store.write(key.clone(), Expect::Revision(stored.revision), mutation).await {
            Ok(stored) => {
                call.server.after_write(&stored);
                return Ok(Answer::Saved(stored));
            }
            Err(WriteError::Stale) if !pinned => call.warnings.clear(),
            Err(error) => return Err(write_error(call.resource, name, error)),
        }
    }
    Err(ApiError::modified(&call.resource.group, &call.resource.plural, name))
}

/// What policies see of a change depends on the subresource it came through.
fn check_policies(
    call: &mut Call<'_>,
    name: &str,
    part: Part,
    new: &Value,
    live: &Value,
) -> Result<(), ApiError> {
    if call.target.subresource.as_deref() == Some(pods::BINDING) {
        // Checked as the binding that it is.
        return Ok(());
    }
    let (kind, new, old) = match (part, &call.resource.subresources.scale) {
        (Part::Scale, Some(paths)) => {
            let scaled = |object| Some(Cow::Owned(scale::of(object, paths)));
            (Some(Other::SCALE), scaled(new), scaled(live))
        }
        _ => (None, Some(Cow::Borrowed(new)), Some(Cow::Borrowed(live))),
    };
    call.check_policies(Act::Update, kind, name, new, old)
}

/// Whether nothing keeps a deleted object any longer.
pub(crate) fn is_finished(value: &Value) -> bool {
    object::is_terminating(value)
        && object::finalizers(value).is_empty()
        && value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (value["kind"] != "Namespace" || value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty))
}

/// An update of a custom resource or a policy must say which revision it was made from.
pub(super) fn require_revision(call: &Call<'_>, value: &Value) -> Result<(), ApiError> {
    let needed = call.resource.is_custom() || call.resource.group == GROUP;
    if !needed || !object::meta(value, "resourceVersion").is_empty() {
        return Ok(());
    }
    let error = FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
    Err(ApiError::invalid(&call.resource.group, &call.resource.plural, object::name(value), &[error]))
}

/// An update says which object it is of, though the path says it too.
pub(super) fn require_name(name: &str, value: &Value) -> Result<(), ApiError> {
    if !object::name(value).is_empty() {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    )))
}

/// True if the wanted state is bound to the revision it was made from.
fn check_revision(call: &Call<'_>, wanted: &Value, stored: &Stored) -> Result<bool, ApiError> {
    let given = object::meta(wanted, "resourceVersion");
    if given.is_empty() {
        return Ok(false);
    }
    if given != stored.revision.to_string() {
        return Err(ApiError::modified(&call.resource.group, &call.resource.plural, &stored.key.name));
    }
    // A patch carries the live revision along without meaning it.
    Ok(call.pins_revision)
}

fn admit_change(
    call: &mut Call<'_>,
    mut new: Value,
    live: &Value,
    part: Part,
    ownership: Ownership,
) -> Result<Value, ApiError> {
    let resource = call.resource;
    check_type(resource, &new)?;
    let name = object::name(live).to_owned();
    let given = object::name(&new);
    if !given.is_empty() && given != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let uid = object::meta(&new, "uid");
    if !uid.is_empty() && uid != object::meta(live, "uid") && !call.pins_revision {
        let error = FieldError::invalid("metadata.uid", &json!(uid), "field is immutable");
        return Err(ApiError::invalid(&resource.group, &resource.kind, &name, &[error]));
    }
    if !uid.is_empty() && uid != object::meta(live, "uid") {
        return Err(ApiError::conflict(
            &resource.group,
            &resource.plural,
            &name,
            &format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::meta(live, "uid")
            ),
        ));
    }
    if part == Part::Status {
        clean(call, &mut new)?;
        new = with_status_of(live, &new);
    } else {
        place(call, &mut new)?;
        clean(call, &mut new)?;
    }
    let meta = object::metadata_mut(&mut new);
    for field in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "selfLink",
    ] {
        match live["metadata"].get(field) {
            Some(value) => meta.insert(field.into(), value.clone()),
            None => meta.remove(field),
        };
    }
    if part != Part::Status && resource.subresources.status {
        set_or_remove(&mut new, "status", live.get("status"));
    }
    let owners = (ownership == Ownership::Track).then(|| owners(call, Some(live), new.clone(), part));
    fill_in(resource, &mut new, Some(live));
    call.server.admit(call, &mut new, Some(live))?;
    if part != Part::Status
        && resource.strategy.has_generation()
        && resource.strategy.bumps_generation(&new, live)
    {
        let generation = live["metadata"]["generation"].as_i64().unwrap_or(1) + 1;
        object::metadata_mut(&mut new).insert("generation".into(), json!(generation));
    }
    validate(call, &new, Some(live))?;
    call.server.check_param_access(call, &new, Some(live))?;
    if let Some(owners) = owners {
        set_owners(&mut new, owners);
    }
    // What was asked for may have been normalised to what was there before.
    keep_times_if_unchanged(live, &mut new);
    Ok(new)
}

/// The live object with nothing but the status, and the ownership records, of another.
fn with_status_of(live: &Value, other: &Value) -> Value {
    let mut new = live.clone();
    set_or_remove(&mut new, "status", other.get("status"));
    if let Some(managed) = other["metadata"].get("managedFields") {
        object::metadata_mut(&mut new).insert("managedFields".into(), managed.clone());
    }
    new
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<&Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => map.insert(field.to_owned(), value.clone()),
            None => map.remove(field),
        };
    }
}

/// The body must be of the kind and version that the URL names; leaving them out is accepted.
fn check_type(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    if !value.is_object() {
        return Err(ApiError::bad_request("the object provided is unrecognized (must be a JSON object)"));
    }
    if !value["metadata"].is_object() && !value["metadata"].is_null() {
        return Err(undecodable_as(resource, &"json: metadata is no object"));
    }
    let expected = resource.api_version();
    match value["apiVersion"].as_str() {
        Some(given) if given != expected => {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({expected})"
            )));
        }
        _ => {}
    }
    match value["kind"].as_str() {
        None if resource.is_custom() => Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing",
            resource.kind
        ))),
        Some(given) if given != resource.kind && resource.is_custom() => {
            let detail = format!("must be {}", resource.kind);
            let error = FieldError::invalid("kind", &json!(given), detail);
            Err(ApiError::invalid(&resource.group, given, object::name(value), &[error]))
        }
        Some(given) if given != resource.kind => Err(ApiError::bad_request(format!(
            "the kind in the data ({given}) does not match the expected kind ({})",
            resource.kind
        ))),
        _ => Ok(()),
    }
}

/// Puts the object into the namespace of the URL.
fn place(call: &Call<'_>, value: &mut Value) -> Result<(), ApiError> {
    let resource = call.resource;
    value["apiVersion"] = Value::String(resource.api_version());
    value["kind"] = Value::String(resource.kind.clone());
    let given = object::namespace(value).to_owned();
    let meta = object::metadata_mut(value);
    match &call.namespace {
        Some(namespace) if given.is_empty() || given == *namespace => {
            meta.insert("namespace".into(), Value::String(namespace.clone()));
            Ok(())
        }
        None if given.is_empty() => {
            meta.remove("namespace");
            Ok(())
        }
        _ => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Drops what the schema does not know, and says so as the request wants it said.
pub(super) fn clean(call: &mut Call<'_>, value: &mut Value) -> Result<(), ApiError> {
    check_types(call.resource, value)?;
    let schema = &call.resource.schema;
    if call.options.field_validation != FieldValidation::Ignore {
        let mut complaints: Vec<String> = std::mem::take(&mut call.duplicates)
            .into_iter()
            .map(|f| format!("duplicate field \"{f}\""))
            .collect();
        let mut unknown = schema.unknown_fields(value);
        if call.resource.is_custom() {
            unknown.sort();
        }
        let unknown = unknown_metadata(value).into_iter().chain(unknown);
        complaints.extend(unknown.map(|f| format!("unknown field \"{f}\"")));
        if !complaints.is_empty() {
            if call.options.field_validation == FieldValidation::Strict {
                let why = format!("strict decoding error: {}", complaints.join(", "));
                return Err(undecodable_as(call.resource, &why));
            }
            call.warnings.extend(complaints);
        }
    }
    schema.prune(value);
    tidy_metadata(value);
    Ok(())
}

fn unknown_metadata(value: &Value) -> Vec<String> {
    let known = builtin::definitions::node(builtin::definitions::OBJECT_META);
    let fields = value["metadata"].as_object().into_iter().flatten();
    let odd = fields.filter(|(name, _)| known.field(name).is_none());
    odd.map(|(name, _)| format!("metadata.{name}")).collect()
}

/// The first field that the schema does not know: who applies may name only what is declared.
pub(super) fn undeclared(resource: &Resource, value: &Value) -> Option<String> {
    unknown_metadata(value).into_iter().chain(resource.schema.unknown_fields(value)).next()
}

/// Metadata is of the same type whatever the kind: what that type does not know goes, and empty lists and maps are none.
fn tidy_metadata(value: &mut Value) {
    let known = builtin::definitions::node(builtin::definitions::OBJECT_META);
    let is_empty = |value: &Value| {
        value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        // Ownership that is given up is said with an empty list.
        metadata.retain(|name, value| {
            name == "managedFields" || (known.field(name).is_some() && !is_empty(value) && !value.is_null())
        });
    }
}

/// Built-in kinds are decoded into types before anything else, and metadata is of every kind.
fn check_types(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    let found = if resource.is_custom() {
        let metadata = builtin::definitions::node(builtin::definitions::OBJECT_META);
        metadata.type_mismatch(&value["metadata"]).map(|found| found.below("metadata"))
    } else {
        resource.schema.root.type_mismatch(value)
    };
    let Some(found) = found else { return Ok(()) };
    Err(undecodable_as(resource, &format!("json: {found}")))
}

fn undecodable_as(resource: &Resource, why: &dyn std::fmt::Display) -> ApiError {
    let (kind, version) = (&resource.kind, &resource.version);
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

fn fill_in(resource: &Resource, value: &mut Value, live: Option<&Value>) {
    resource.schema.default(value);
    resource.strategy.prepare(value, live);
    resource.strategy.default(value);
}

fn validate(call: &Call<'_>, value: &Value, live: Option<&Value>) -> Result<(), ApiError> {
    if call.extensions.get::<Vetted>().is_some() {
        return Ok(());
    }
    let resource = call.resource;
    check_depth(value)?;
    let mut errors = builtin::validate_metadata(value, resource, live);
    let by_schema = resource.schema.validate(value, live);
    // Kubernetes can't decode such a value of a kind of its own.
    if let Some(undecodable) = by_schema.iter().find(|e| e.kind == FieldErrorKind::TypeInvalid)
        && !resource.is_custom()
    {
        return Err(undecodable_as(resource, undecodable));
    }
    // What a strategy says about fields of the wrong type would only repeat the schema.
    if by_schema.is_empty() {
        errors.extend(resource.strategy.validate(value, live));
    }
    errors.extend(by_schema);
    if errors.is_empty() {
        return Ok(());
    }
    let name = Some(object::name(value)).filter(|n| !n.is_empty());
    let name = name.unwrap_or_else(|| object::meta(value, "generateName"));
    Err(ApiError::invalid(&resource.group, &resource.kind, name, &errors))
}

/// Metadata has a fixed shape but for field ownership, which follows the rest.
fn check_depth(value: &Value) -> Result<(), ApiError> {
    let fields = value.as_object().into_iter().flatten();
    match fields.into_iter().find(|(name, v)| *name != "metadata" && object::is_deeper_than(v, MAX_DEPTH)) {
        Some((field, _)) => {
            Err(ApiError::bad_request(format!("{field}: nested too deep, the limit is {MAX_DEPTH} levels")))
        }
        None => Ok(()),
    }
}

/// Who owns what after a write of `sent`: its author what it says and what its defaults are; nobody what the server
/// adds after that.
fn owners(call: &Call<'_>, live: Option<&Value>, mut sent: Value, part: Part) -> Option<Value> {
    call.resource.schema.default(&mut sent);
    call.resource.strategy.default(&mut sent);
    // Nobody owns what a default says of a status.
    if part != Part::Status && call.resource.subresources.status {
        set_or_remove(&mut sent, "status", live.and_then(|live| live.get("status")));
    }
    let api_version = call.resource.api_version();
    let manager = Manager {
        name: &call.field_manager(),
        operation: Operation::Update,
        api_version: &api_version,
        subresource: part.subresource(),
        now: &call.now,
        of_built_in: !call.resource.is_custom(),
    };
    track_update(live, &mut sent, &call.resource.schema.root, &manager);
    sent["metadata"].get("managedFields").cloned()
}

fn set_owners(value: &mut Value, owners: Option<Value>) {
    let metadata = object::metadata_mut(value);
    match owners {
        Some(owners) => metadata.insert("managedFields".into(), owners),
        None => metadata.remove("managedFields"),
    };
}

/// Nothing can be created in a namespace that is missing or going away.
fn check_namespace(call: &Call<'_>, value: &Value) -> Result<(), ApiError> {
    let Some(namespace) = &call.namespace else { return Ok(()) };
    let key = Key::new(&GroupResource::new("", "namespaces"), "", namespace);
    let Some(found) = call.server.store.get(&key) else {
        return Err(ApiError::not_found("", "namespaces", namespace));
    };
    if !object::is_terminating(&found.value()) {
        return Ok(());
    }
    let name = Some(object::name(value)).filter(|n| !n.is_empty());
    let name = name.unwrap_or_else(|| object::meta(value, "generateName"));
    let mut error = ApiError::forbidden(
        &call.resource.group,
        &call.resource.plural,
        name,
        format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            crate::error::qualified(&call.resource.group, &call.resource.plural),
        ),
    );
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(error)
}
