//! `metadata.managedFields`: reading and writing its entries, and keeping them true on every write that is not an
//! apply.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::{Element, Entry, Set};
use super::typed::Position;
use super::typed::compare::{Diff, compare};
use super::typed::prune::fold_atomics;
use crate::object;
use crate::schema::Node;

/// More updaters than this are not told apart; the oldest are merged.
const MAX_UPDATERS: usize = 10;
const MERGED_UPDATERS: &str = "ancient-changes";

/// Who writes, how and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manager<'a> {
    pub name: &'a str,
    pub operation: Operation,
    /// Group and version in which the writer speaks of the object: `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339 in UTC, to the second.
    pub now: &'a str,
    /// Whether the object's kind is one of Kubernetes' own.
    pub of_built_in: bool,
}

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManagedEntry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<String>,
    pub fields: Set,
}

impl ManagedEntry {
    pub(super) fn new(writer: &Manager<'_>, fields: Set) -> Self {
        let name = if writer.name.is_empty() { "unknown" } else { writer.name };
        Self {
            manager: name.to_owned(),
            operation: writer.operation,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
            time: Some(writer.now.to_owned()),
            fields,
        }
    }

    /// Whether both are entries of the same manager. An applier is the same whatever version it applies in.
    pub(super) fn is_same(&self, other: &ManagedEntry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn decode(entry: &Value) -> Option<Self> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let fields = match entry.get("fieldsV1") {
            None | Some(Value::Null) => Set::default(),
            Some(fields) => Set::from_json(fields).ok()?,
        };
        Some(Self {
            manager: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time: entry.get("time").and_then(Value::as_str).map(ToOwned::to_owned),
            fields,
        })
    }

    fn encode(self) -> Value {
        let mut entry = Map::with_capacity(7);
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        if !self.manager.is_empty() {
            put("manager", Value::String(self.manager));
        }
        put("operation", json!(if self.operation == Operation::Apply { "Apply" } else { "Update" }));
        put("apiVersion", Value::String(self.api_version));
        if let Some(time) = self.time {
            put("time", Value::String(time));
        }
        put("fieldsType", json!("FieldsV1"));
        put("fieldsV1", self.fields.into_json());
        if !self.subresource.is_empty() {
            put("subresource", Value::String(self.subresource));
        }
        Value::Object(entry)
    }
}

/// The owners of an object's fields; `None` when an entry makes no sense.
pub(super) fn owners(object: &Value) -> Option<Vec<ManagedEntry>> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut owners = Vec::<ManagedEntry>::with_capacity(entries.len() + 1);
    for entry in entries {
        let owner = ManagedEntry::decode(entry)?;
        match owners.iter_mut().find(|known| known.is_same(&owner)) {
            Some(known) => *known = owner,
            None => owners.push(owner),
        }
    }
    Some(owners)
}

/// Writes the entries in Kubernetes' order; none at all when there is no owner.
pub(super) fn set_owners(object: &mut Value, mut owners: Vec<ManagedEntry>) {
    owners.retain(|owner| !owner.fields.is_empty());
    owners.sort_by(|a, b| {
        (a.operation, &a.time, &a.manager, &a.api_version, &a.subresource).cmp(&(
            b.operation,
            &b.time,
            &b.manager,
            &b.api_version,
            &b.subresource,
        ))
    });
    set_managed_fields(
        object,
        (!owners.is_empty()).then(|| owners.into_iter().map(ManagedEntry::encode).collect()),
    );
}

fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    let metadata = object::metadata_mut(object);
    match entries {
        Some(entries) => {
            metadata.insert("managedFields".to_owned(), entries);
        }
        None => metadata.retain(|key, _| key != "managedFields"),
    }
}

/// Takes away what nobody owns: identity, and what the server writes itself.
pub(super) fn strip_system_fields(fields: &mut Set) {
    fields.rewrite(|element, entry| match element {
        Element::Field(name) if name == "apiVersion" || name == "kind" => *entry = Entry::default(),
        Element::Field(name) if name == "metadata" => {
            entry.member = false;
            entry.children.rewrite(|element, entry| {
                if matches!(element, Element::Field(name) if is_system_metadata(name)) {
                    *entry = Entry::default();
                }
            });
        }
        _ => {}
    });
}

fn is_system_metadata(name: &str) -> bool {
    matches!(
        name,
        "name"
            | "namespace"
            | "creationTimestamp"
            | "selfLink"
            | "uid"
            | "clusterName"
            | "generation"
            | "managedFields"
            | "resourceVersion"
    )
}

/// Takes changed and removed fields from an owner.
pub(super) fn dispossess(owners: &mut Vec<ManagedEntry>, diff: &Diff) {
    owners.retain_mut(|owner| {
        owner.fields.subtract(&diff.changed);
        owner.fields.subtract(&diff.removed);
        !owner.fields.is_empty()
    });
}

/// Writes into `new` who owns its fields after a create, an update or a patch other than apply: what differs from
/// `live` becomes the manager's. Call it when `new` is as it will be stored: defaulted, and with the fields that
/// this endpoint does not serve set back to what they were.
pub(crate) fn track_update(live: Option<&Value>, new: &mut Value, schema: &Node, manager: &Manager<'_>) {
    let place = Position::root(schema);
    let absent = Value::Null;
    let sent = new.get("metadata").and_then(|m| m.get("managedFields")).unwrap_or(&absent);
    let live_entries =
        live.and_then(|live| live.get("metadata")).and_then(|m| m.get("managedFields")).unwrap_or(&absent);

    // A writer may edit the entries, but through a subresource, by leaving them out or by nonsense it does not.
    let reset = manager.subresource.is_empty() && is_reset(sent);
    let edited = manager.subresource.is_empty() && !reset && sent != live_entries && !sent.is_null();
    let edited = if edited { owners(new).filter(|owners| !owners.is_empty()) } else { None };
    let is_edited = edited.is_some();
    let known = || live.and_then(owners).unwrap_or_default();

    let Some(live) = live else {
        let empty = if manager.of_built_in { standing_parts(new) } else { Value::Object(Map::new()) };
        let mut diff = compare(&empty, new, place);
        strip_system_fields(&mut diff.changed);
        return settle(new, edited.unwrap_or_default(), diff, manager);
    };
    if reset {
        return set_managed_fields(new, None);
    }
    let mut diff = compare(live, new, place);
    strip_system_fields(&mut diff.changed);
    strip_system_fields(&mut diff.removed);
    if diff == Diff::default() && !is_edited {
        if sent != live_entries {
            let entries = live_entries.is_array().then(|| live_entries.clone());
            set_managed_fields(new, entries);
        }
        return;
    }
    let mut owners = edited.unwrap_or_else(known);
    if owners.is_empty() {
        // Tracking was given up, or never began; it begins with the first apply.
        return set_managed_fields(new, None);
    }
    for owner in &mut owners {
        fold_atomics(&mut owner.fields, place);
    }
    settle(new, owners, diff, manager);
}

/// Parts that are there in every object of a built-in kind, empty at least, so that nobody brings them.
const STANDING: [&str; 9] = [
    "containers",
    "involvedObject",
    "metadata",
    "names",
    "source",
    "spec",
    "strategy",
    "template",
    "updateStrategy",
];

/// Those of an object.
fn standing_parts(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let standing = fields.filter(|(name, _)| STANDING.contains(&name.as_str()));
    let parts = standing.map(|(name, value)| {
        let part = if value.is_array() { Value::Array(Vec::new()) } else { standing_parts(value) };
        (name.clone(), part)
    });
    Value::Object(parts.collect())
}

fn settle(new: &mut Value, mut owners: Vec<ManagedEntry>, diff: Diff, manager: &Manager<'_>) {
    dispossess(&mut owners, &diff);
    if !diff.changed.is_empty() {
        let mut owner = ManagedEntry::new(manager, diff.changed);
        if let Some(at) = owners.iter().position(|known| known.is_same(&owner)) {
            owner.fields.absorb(owners.swap_remove(at).fields);
        }
        owners.push(owner);
    }
    cap_updaters(&mut owners);
    set_owners(new, owners);
}

fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Merges the oldest updaters of each version until few enough are left.
fn cap_updaters(owners: &mut Vec<ManagedEntry>) {
    let is_updater = |owner: &ManagedEntry| owner.operation == Operation::Update;
    let mut excess = owners.iter().filter(|o| is_updater(o)).count().saturating_sub(MAX_UPDATERS);
    if excess == 0 {
        return;
    }
    let (mut updaters, rest): (Vec<_>, Vec<_>) = owners.drain(..).partition(is_updater);
    updaters.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
    let mut oldest = BTreeMap::<String, usize>::new();
    let mut at = 0;
    while excess > 0 && at < updaters.len() {
        let version = updaters[at].api_version.clone();
        let Some(&first) = oldest.get(&version) else {
            oldest.insert(version, at);
            at += 1;
            continue;
        };
        let is_bucket = |o: &ManagedEntry| {
            o.manager == MERGED_UPDATERS && o.api_version == version && o.subresource.is_empty()
        };
        let bucket = updaters.iter().position(is_bucket).unwrap_or(first);
        // When the next in line is the bucket itself, the oldest goes into it.
        let source = if bucket == at { first } else { at };
        let fields = std::mem::take(&mut updaters[source].fields);
        let time = updaters[source].time.clone().max(updaters[bucket].time.take());
        let target = &mut updaters[bucket];
        MERGED_UPDATERS.clone_into(&mut target.manager);
        target.subresource.clear();
        target.time = time;
        target.fields.absorb(fields);
        oldest.insert(version, bucket);
        excess -= 1;
        at += 1;
    }
    updaters.retain(|owner| !owner.fields.is_empty());
    *owners = rest;
    owners.append(&mut updaters);
}

/// Puts back the live object's entries when nothing but their times differs, so that nothing has to be written.
pub(crate) fn keep_times_if_unchanged(live: &Value, new: &mut Value) {
    if !equal_without_entries(live, new) {
        return;
    }
    let (Some(before), Some(after)) = (owners(live), owners(new)) else {
        return;
    };
    let same = before.len() == after.len()
        && before.iter().all(|b| after.iter().any(|a| a.is_same(b) && a.fields == b.fields));
    if same {
        let entries = live["metadata"].get("managedFields").cloned();
        set_managed_fields(new, entries);
    }
}

/// Whether two objects are equal but for their `managedFields`.
fn equal_without_entries(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let metadata = |map: &Map<String, Value>| map.get("metadata").and_then(Value::as_object).cloned();
    let (Some(mut meta_a), Some(mut meta_b)) = (metadata(a), metadata(b)) else {
        return a == b;
    };
    meta_a.retain(|key, _| key != "managedFields");
    meta_b.retain(|key, _| key != "managedFields");
    meta_a == meta_b && a.len() == b.len() && a.iter().all(|(k, v)| k == "metadata" || b.get(k) == Some(v))
}
