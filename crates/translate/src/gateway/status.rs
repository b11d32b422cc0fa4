//! How a status is written: only what is ours changes, what others wrote stays byte for byte and in its place, and a
//! transition has a new time only if there was one. So a status that says the same as before is equal to it, and nothing is
//! written.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::CONTROLLER_NAME;
use super::kinds::GROUP;
use super::picture::Status;
use crate::references::{ParentRef, Verdict};

/// What a message is cut at: the reader of a condition is a person.
const LONGEST_MESSAGE: usize = 1024;

/// A condition to be written: its type, and what it says.
pub(super) type Wanted = (&'static str, Verdict);

/// When and of which generation something is said.
#[derive(Clone, Copy)]
pub(super) struct Stamp<'a> {
    /// The generation of the object.
    pub(super) generation: i64,
    /// The time, as Kubernetes writes it.
    pub(super) now: &'a str,
}

impl Status {
    /// The new status of an object that has the old one.
    pub(super) fn of(old: &Value, value: Value) -> Self {
        Self { changed: *old != value, value }
    }
}

/// The status of an object as a map, to be changed.
pub(super) fn fields(status: &Value) -> Map<String, Value> {
    status.as_object().cloned().unwrap_or_default()
}

/// The conditions after these are said; `ours` are further types that go away when they are not said.
pub(super) fn conditions(old: &Value, wanted: &[Wanted], ours: &[&str], stamp: Stamp<'_>) -> Value {
    let old = old.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut made = Vec::with_capacity(old.len().max(wanted.len()));
    for condition in old {
        let kind = condition["type"].as_str().unwrap_or_default();
        match wanted.iter().find(|(wanted, _)| *wanted == kind) {
            Some(said) => made.push(condition_of(said, condition, stamp)),
            None if ours.contains(&kind) => {}
            None => made.push(condition.clone()),
        }
    }
    for said in wanted {
        if old.iter().all(|condition| condition["type"] != said.0) {
            made.push(condition_of(said, &Value::Null, stamp));
        }
    }
    Value::Array(made)
}

fn condition_of((kind, verdict): &Wanted, old: &Value, stamp: Stamp<'_>) -> Value {
    let status = if verdict.holds { "True" } else { "False" };
    let since = if old["status"] == status { old["lastTransitionTime"].as_str() } else { None };
    json!({
        "type": kind,
        "status": status,
        "reason": verdict.reason,
        "message": cut(&verdict.message),
        "observedGeneration": stamp.generation,
        "lastTransitionTime": since.unwrap_or(stamp.now),
    })
}

fn cut(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let mut end = LONGEST_MESSAGE - 4;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &message[..end])
}

/// A list of what controllers say, each about one parent or ancestor.
pub(super) struct Entries<'a> {
    /// The list as it is.
    pub(super) old: &'a Value,
    /// `parentRef` or `ancestorRef`.
    pub(super) field: &'static str,
    /// The namespace of the object: that of a reference that has none.
    pub(super) namespace: &'a str,
    /// How many entries the list takes.
    pub(super) most: usize,
    /// Types of conditions that go away when they are not said.
    pub(super) ours: &'a [&'a str],
}

impl Entries<'_> {
    /// Whether one of the entries is ours.
    pub(super) fn has_ours(list: &Value) -> bool {
        list.as_array().is_some_and(|list| list.iter().any(is_ours))
    }

    /// The list with exactly these entries of ours. Those that are there already stay in their places; new ones follow at
    /// the end, as far as there is room.
    pub(super) fn with(&self, wanted: &[(ParentRef, Vec<Wanted>)], stamp: Stamp<'_>) -> Value {
        let old = self.old.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut room = self.most.saturating_sub(old.iter().filter(|entry| !is_ours(entry)).count());
        let mut written = vec![false; wanted.len()];
        let mut made = Vec::with_capacity(old.len().max(wanted.len()));
        for entry in old {
            if !is_ours(entry) {
                made.push(entry.clone());
                continue;
            }
            let Ok(reference) = ParentRef::deserialize(&entry[self.field]) else { continue };
            let reference = self.whole(&reference);
            let at = wanted
                .iter()
                .zip(&written)
                .position(|((wanted, _), written)| !written && self.whole(wanted) == reference);
            if let Some(at) = at
                && room > 0
            {
                room -= 1;
                written[at] = true;
                made.push(self.entry(&wanted[at], &entry["conditions"], stamp));
            }
        }
        for (said, _) in wanted.iter().zip(&written).filter(|(_, written)| !**written).take(room) {
            made.push(self.entry(said, &Value::Null, stamp));
        }
        Value::Array(made)
    }

    fn entry(&self, (reference, said): &(ParentRef, Vec<Wanted>), old: &Value, stamp: Stamp<'_>) -> Value {
        // The API server would fill in what is left out, and the status would differ from what was written for ever.
        let reference = ParentRef {
            group: Some(reference.group.clone().unwrap_or_else(|| GROUP.to_owned())),
            kind: Some(reference.kind.clone().unwrap_or_else(|| "Gateway".to_owned())),
            ..reference.clone()
        };
        json!({
            self.field: reference,
            "controllerName": CONTROLLER_NAME,
            "conditions": conditions(old, said, self.ours, stamp),
        })
    }

    /// The reference with all that it leaves open.
    fn whole(&self, reference: &ParentRef) -> ParentRef {
        ParentRef {
            group: Some(reference.group.clone().unwrap_or_else(|| GROUP.to_owned())),
            kind: Some(reference.kind.clone().unwrap_or_else(|| "Gateway".to_owned())),
            namespace: Some(reference.namespace.clone().unwrap_or_else(|| self.namespace.to_owned())),
            ..reference.clone()
        }
    }
}

fn is_ours(entry: &Value) -> bool {
    entry["controllerName"] == CONTROLLER_NAME
}
