//! Server-side apply: the applied document is laid over the live one, fields that the applier has given up go, and
//! fields of other managers are taken only when their values agree, or by force.

mod conflict;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::conflict::Conflict;
use super::fields::Set;
use super::last_applied;
use super::managed::{self, ManagedEntry, Manager, Operation};
use super::typed::Position;
use super::typed::compare::{claimed, compare};
use super::typed::merge::{check, merge};
use super::typed::prune::{fold_atomics, remove, with_named_parents};
use crate::error::{ApiError, Reason};
use crate::object;
use crate::schema::Node;

/// The manager of the fields that were written before fields were tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies a document, and returns the object with its `managedFields`. It equals `live` when nothing changes.
///
/// The applied document names its kind and version and holds only what this endpoint serves: the caller takes
/// `status` out of what is applied to an object with a status subresource. A `uid` or `resourceVersion` in it comes
/// back in the result, for the caller to compare with the live object's.
pub(crate) fn apply(
    live: Option<&Value>,
    applied: &Value,
    schema: &Node,
    manager: &Manager<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    let place = Position::root(schema);
    let config = configuration(applied, manager)?;
    check(&config, place).map_err(|why| untypable(&config, &why))?;

    let nothing = Value::Object(Map::new());
    let base = live.unwrap_or(&nothing);
    let request = Request { base, exists: live.is_some(), config: &config, place, manager };
    let outcome = match request.run(force)? {
        Err(conflicts) => {
            let conflicts = match last_applied::allowed(base, place, manager) {
                Some(allowed) => conflicts.into_iter().filter_map(|c| c.without(&allowed)).collect(),
                None => conflicts,
            };
            if !conflicts.is_empty() {
                return Err(conflict::error(&conflicts));
            }
            request.run(true)?
        }
        done => done,
    };
    let Applied { mut object, owners, unchanged } =
        outcome.map_err(|conflicts| conflict::error(&conflicts))?;
    last_applied::refresh(&mut object, applied, manager);
    if !(unchanged && object == *base) {
        managed::set_owners(&mut object, owners);
    }
    Ok(object)
}

/// What an apply comes to, before `managedFields` are written.
struct Applied {
    object: Value,
    owners: Vec<ManagedEntry>,
    /// Nobody owns more or less than before.
    unchanged: bool,
}

/// One apply, to be tried with and without force.
struct Request<'a> {
    base: &'a Value,
    exists: bool,
    config: &'a Value,
    place: Position<'a>,
    manager: &'a Manager<'a>,
}

impl Request<'_> {
    fn run(&self, force: bool) -> Result<Result<Applied, Vec<Conflict>>, ApiError> {
        let mut owners = managed::owners(self.base).ok_or_else(|| {
            ApiError::new(500, Reason::Unknown, "failed to decode managed fields of the live object")
        })?;
        let mut unchanged = true;
        if owners.is_empty() && self.exists {
            owners.push(self.first_owner());
            unchanged = false;
        }
        for owner in &mut owners {
            unchanged &= !fold_atomics(&mut owner.fields, self.place);
        }

        let mut fields = claimed(self.config, self.place);
        managed::strip_system_fields(&mut fields);
        let mut mine = ManagedEntry::new(self.manager, fields);
        let last = owners.iter().position(|owner| owner.is_same(&mine)).map(|at| owners.swap_remove(at));

        let merged = merge(self.base, self.config, self.place);
        let object = match &last {
            Some(last) if !last.fields.is_subset(&mine.fields) => {
                self.give_up(merged, &last.fields, &mine.fields, &owners)
            }
            _ => merged,
        };

        let diff = compare(self.base, &object, self.place);
        if !force {
            let conflicts: Vec<_> =
                owners.iter().filter_map(|owner| Conflict::between(owner, &diff.changed)).collect();
            if !conflicts.is_empty() {
                return Ok(Err(conflicts));
            }
        }
        managed::dispossess(&mut owners, &diff);
        unchanged &= object == *self.base;
        match last {
            Some(last) if last.fields == mine.fields && last.api_version == mine.api_version => {
                if unchanged {
                    mine.time = last.time;
                }
            }
            Some(_) => unchanged = false,
            None => unchanged &= mine.fields.is_empty(),
        }
        owners.push(mine);
        Ok(Ok(Applied { object, owners, unchanged }))
    }

    /// Who wrote the object before its fields were tracked.
    fn first_owner(&self) -> ManagedEntry {
        let nothing = Value::Object(Map::new());
        let mut fields = compare(&nothing, self.base, self.place).changed;
        managed::strip_system_fields(&mut fields);
        let writer = Manager { name: BEFORE_FIRST_APPLY, operation: Operation::Update, ..*self.manager };
        ManagedEntry::new(&writer, fields)
    }

    /// Removes what this manager applied last time and names no more, unless someone else owns it.
    fn give_up(&self, merged: Value, last: &Set, mine: &Set, others: &[ManagedEntry]) -> Value {
        let place = self.place;
        let named = |fields: Set| with_named_parents(fields, place);
        let last = named(last.clone());
        let mut wanted = mine.clone();
        for owner in others {
            wanted.absorb(owner.fields.clone());
        }
        let all = named(claimed(&merged, place));

        let mut pruned = merged.clone();
        remove(&mut pruned, &last, place);
        let mut surplus = all.clone();
        surplus.subtract(&named(claimed(&pruned, place)));
        surplus.subtract(&named(wanted));

        let mut kept = merged.clone();
        remove(&mut kept, &surplus, place);
        let mut dropped = all;
        dropped.subtract(&named(claimed(&kept, place)));

        let mut object = merged;
        remove(&mut object, &dropped.intersection(&last), place);
        // A container that lost all it had is gone; the applied document may still ask for an empty one.
        merge(&object, self.config, place)
    }
}

/// What is applied, without what an applier cannot set.
fn configuration(applied: &Value, manager: &Manager<'_>) -> Result<Value, ApiError> {
    let Some(document) = applied.as_object() else {
        return Err(ApiError::bad_request("the applied configuration must be a JSON object"));
    };
    let version = applied["apiVersion"].as_str().unwrap_or_default();
    if version != manager.api_version {
        return Err(ApiError::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            manager.api_version
        )));
    }
    if applied["metadata"]["managedFields"].as_array().is_some_and(|entries| !entries.is_empty()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let mut config = document.clone();
    if manager.subresource == "status" {
        config.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    }
    if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, value| match key.as_str() {
            "creationTimestamp"
            | "generation"
            | "selfLink"
            | "managedFields"
            | "deletionTimestamp"
            | "deletionGracePeriodSeconds" => false,
            "uid" | "resourceVersion" => !(value.is_null() || value == ""),
            "name" | "namespace" => true,
            _ => manager.subresource != "status",
        });
    }
    Ok(Value::Object(config))
}

/// A configuration that does not fit its type.
pub(crate) fn untypable(config: &Value, why: &str) -> ApiError {
    let api_version = config["apiVersion"].as_str().unwrap_or_default();
    let kind = config["kind"].as_str().unwrap_or_default();
    let message = format!(
        "failed to create typed patch object ({}/{}; {api_version}, Kind={kind}): {why}",
        object::namespace(config),
        object::name(config),
    );
    ApiError::new(500, Reason::Unknown, message)
}
