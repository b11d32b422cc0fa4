//! Deleting: at once, after a grace period, or when the last finalizer goes.

use std::borrow::Cow;
use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::read::{self, Filter};
use super::{Call, body, write};
use crate::admission::policies::Act;
use crate::error::{ApiError, FieldError};
use crate::object;
use crate::resource::Resource;
use crate::server::Server;
use crate::store::{Expect, Key, Mutation, Stored, WriteError};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// Namespaces that every cluster has for good.
const LASTING_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// How to delete.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub propagation: Propagation,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

/// What becomes of the objects that an object owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// What a delete left behind.
pub(crate) enum Deleted {
    Gone(Value),
    /// It stays until its finalizers or its grace period allow it to go.
    Terminating(Value),
}

impl DeleteOptions {
    fn parse(call: &Call<'_>, body: &Value) -> Result<Self, ApiError> {
        let query = call.options;
        let policy = body["propagationPolicy"].as_str().or(query.propagation_policy.as_deref());
        let orphan = body["orphanDependents"].as_bool().or(query.orphan_dependents);
        let refused = |error| Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
        let path = "propagationPolicy";
        let propagation = match (policy, orphan) {
            (Some(policy), Some(_)) => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                return refused(FieldError::invalid(path, &json!(policy), detail));
            }
            (Some("Background"), _) | (None, None | Some(false)) => Propagation::Background,
            (Some("Foreground"), _) => Propagation::Foreground,
            (Some("Orphan"), _) | (None, Some(true)) => Propagation::Orphan,
            (Some(other), _) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                return refused(FieldError::not_supported(path, &json!(other), &known));
            }
        };
        if body["kind"].as_str().is_some_and(|kind| kind != "DeleteOptions") {
            return Err(ApiError::bad_request(format!("a delete takes DeleteOptions, not {}", body["kind"])));
        }
        let text = |v: &Value| v.as_str().filter(|s| !s.is_empty()).map(str::to_owned);
        let dry_run =
            query.dry_run || body["dryRun"].as_array().is_some_and(|list| list.iter().any(|v| v == "All"));
        Ok(Self {
            grace_seconds: body["gracePeriodSeconds"].as_i64().or(query.grace_period_seconds),
            propagation,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            dry_run,
        })
    }
}

pub(crate) async fn delete(call: &mut Call<'_>, name: &str, body: &Value) -> Result<Response, ApiError> {
    let options = DeleteOptions::parse(call, body)?;
    if !call.resource.can_be_emptied() && LASTING_NAMESPACES.contains(&name) {
        let message = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        return Err(ApiError::forbidden("", "namespaces", name, message));
    }
    let key = call.key(name);
    let (server, resource) = (call.server, call.resource);
    match remove(server, resource, &key, &options, |live| check_policies(call, name, live)).await? {
        Deleted::Terminating(value) => Ok(read::show(call, StatusCode::OK, &value)),
        Deleted::Gone(value) if call.resource.shows_deleted() => Ok(read::show(call, StatusCode::OK, &value)),
        Deleted::Gone(value) => {
            let mut details =
                json!({"name": name, "kind": call.resource.plural, "uid": value["metadata"]["uid"]});
            if !call.resource.group.is_empty() {
                details["group"] = json!(call.resource.group);
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(body::respond(StatusCode::OK, &status, call.headers, call.options.pretty))
        }
    }
}

/// Deletes every object that the selectors match, each by the rules of a single delete.
pub(crate) async fn delete_collection(call: &mut Call<'_>, body: &Value) -> Result<Response, ApiError> {
    let options = DeleteOptions::parse(call, body)?;
    let filter = Filter::parse(call.resource, call.options)?;
    let snapshot = call.server.store.list(&call.collection(), call.namespace.as_deref());
    let mut removed: Vec<Arc<Stored>> = Vec::new();
    for object in snapshot.items.iter().filter(|o| filter.matches(call.resource, o)) {
        let (server, resource) = (call.server, call.resource);
        match remove(server, resource, &object.key, &options, |live| check_policies(call, "", live)).await {
            Ok(_) => removed.push(object.clone()),
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let meta = json!({"resourceVersion": call.server.store.revision().to_string()});
    Ok(read::send_list(call, &removed, meta))
}

/// Policies see what is to go; a delete of several names none of them.
fn check_policies(call: &mut Call<'_>, name: &str, live: &Value) -> Result<(), ApiError> {
    let mut shown = live.clone();
    read::present(call.resource, &mut shown);
    call.check_policies(Act::Delete, None, name, None, Some(Cow::Owned(shown)))
}

/// What the server itself deletes, in consequence of something else.
pub(crate) fn unasked(_live: &Value) -> Result<(), ApiError> {
    Ok(())
}

/// Deletes one object by the rules of its kind; `admit` may refuse it.
pub(crate) async fn remove(
    server: &Server,
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
    mut admit: impl FnMut(&Value) -> Result<(), ApiError>,
) -> Result<Deleted, ApiError> {
    for _ in 0..write::ATTEMPTS {
        let stored = server
            .store
            .get(key)
            .ok_or_else(|| ApiError::not_found(&resource.group, &resource.plural, &key.name))?;
        let live = stored.value();
        check_preconditions(resource, &live, options)?;
        admit(&live)?;
        let marked = mark(&live, options, jiff::Timestamp::now());
        let done = write::is_finished(&marked);
        // What goes at once goes as it is: nobody has to be told that it is being deleted.
        // A pod always says since when.
        let at_once = done && !object::is_terminating(&live) && live["kind"] != "Pod";
        let marked = if at_once { live.clone() } else { marked };
        let mut shown = marked.clone();
        read::present(resource, &mut shown);
        if options.dry_run || (!done && marked == live) {
            return Ok(if done { Deleted::Gone(shown) } else { Deleted::Terminating(shown) });
        }
        let mutation = if done { Mutation::Delete(marked) } else { Mutation::Put(marked) };
        match server.store.write(key.clone(), Expect::Revision(stored.revision), mutation).await {
            Ok(stored) => {
                server.after_write(&stored);
                let value = read::view(resource, &stored);
                return Ok(if done { Deleted::Gone(value) } else { Deleted::Terminating(value) });
            }
            Err(WriteError::Stale) => {}
            Err(error) => return Err(write::write_error(resource, &key.name, error)),
        }
    }
    Err(ApiError::modified(&resource.group, &resource.plural, &key.name))
}

fn check_preconditions(resource: &Resource, live: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let conflict =
        |why: &str| Err(ApiError::conflict(&resource.group, &resource.kind, object::name(live), why));
    let (uid, revision) = (object::meta(live, "uid"), object::meta(live, "resourceVersion"));
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return conflict(&format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        ));
    }
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != revision) {
        return conflict(&format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        ));
    }
    Ok(())
}

/// The object with its deletion begun: time, grace and the finalizer that its propagation needs.
fn mark(live: &Value, options: &DeleteOptions, now: jiff::Timestamp) -> Value {
    let mut value = live.clone();
    let grace = grace_seconds(live, options.grace_seconds);
    let first = !object::is_terminating(live);
    let shorter = live["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|old| grace < old);
    if first {
        let finalizers: Vec<&str> = object::finalizers(live)
            .into_iter()
            .filter(|f| *f != FOREGROUND && *f != ORPHAN)
            .chain(match options.propagation {
                Propagation::Background => None,
                Propagation::Foreground => Some(FOREGROUND),
                Propagation::Orphan => Some(ORPHAN),
            })
            .collect();
        let finalizers = json!(finalizers);
        let meta = object::metadata_mut(&mut value);
        if finalizers.as_array().is_some_and(Vec::is_empty) {
            meta.remove("finalizers");
        } else {
            meta.insert("finalizers".into(), finalizers);
        }
        if let Some(generation) = live["metadata"]["generation"].as_i64().filter(|_| !waits_for_content(live))
        {
            meta.insert("generation".into(), json!(generation + 1));
        }
    }
    if first || shorter {
        let at = now + jiff::SignedDuration::from_secs(grace);
        let meta = object::metadata_mut(&mut value);
        meta.insert("deletionTimestamp".into(), json!(super::timestamp(at)));
        if !waits_for_content(live) {
            meta.insert("deletionGracePeriodSeconds".into(), json!(grace));
        }
    }
    if first && live["kind"] == "Namespace" {
        object::map_at(&mut value, "status").insert("phase".into(), json!("Terminating"));
    }
    value
}

/// Namespaces and definitions have a way of their own to go.
fn waits_for_content(live: &Value) -> bool {
    live["kind"] == "Namespace" || live["kind"] == "CustomResourceDefinition"
}

/// Only pods that run on a node get time to end; everything else goes at once.
fn grace_seconds(live: &Value, asked: Option<i64>) -> i64 {
    let running = live["kind"] == "Pod"
        && live["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty())
        && !matches!(live["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !running {
        return 0;
    }
    asked.or(live["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30).max(0)
}
