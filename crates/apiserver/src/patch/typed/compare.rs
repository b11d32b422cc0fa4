//! Which fields a document has, and which differ between two documents.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Position;
use crate::patch::fields::{Element, Entry, Set};

/// How one document became another. Added and modified fields are one set: ownership never tells them apart.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Diff {
    pub removed: Set,
    pub changed: Set,
}

/// Which containers are members beside their leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Claim {
    /// All of them: the writer brought them into being.
    Everything,
    /// Only those that a schema does not name: whoever applies `a.b` does not claim the struct `a`.
    Leaves,
}

/// The fields that an applied document claims.
pub(crate) fn claimed(document: &Value, place: Position<'_>) -> Set {
    contents(document, place, Claim::Leaves)
}

/// Compares two whole documents.
pub(crate) fn compare(old: &Value, new: &Value, place: Position<'_>) -> Diff {
    let (mut removed, mut changed) = (Vec::new(), Vec::new());
    walk(old, new, place, &mut removed, &mut changed);
    Diff { removed: Set::from_entries(removed), changed: Set::from_entries(changed) }
}

fn contents(value: &Value, place: Position<'_>, claim: Claim) -> Set {
    match value {
        Value::Object(map) if !place.is_atomic_map() => {
            let mut entries = Vec::with_capacity(map.len());
            for (name, child) in map {
                let here = place.field(name);
                let empty_map = child.as_object().is_some_and(Map::is_empty);
                let leaf = empty_map || !here.is_granular(child);
                let member = claim == Claim::Everything || leaf || !place.names(name);
                let entry = Entry { member, children: contents(child, here, claim) };
                entries.push((Element::field(name), entry));
            }
            Set::from_entries(entries)
        }
        Value::Array(list) if place.is_associative() => {
            let Ok(elements) = place.elements(list) else {
                return Set::default();
            };
            let mut items: Vec<_> = elements.into_iter().zip(list).collect();
            items.sort_by(|a, b| a.0.cmp(&b.0));
            let mut entries = Vec::<(Element, Entry)>::with_capacity(items.len());
            for (element, item) in items {
                match entries.last_mut() {
                    // An item that occurs twice is owned as a whole: nothing tells its parts apart.
                    Some((last, entry)) if *last == element => entry.children = Set::default(),
                    _ => entries.push((element, item_entry(item, place.items(), claim))),
                }
            }
            Set::from_entries(entries)
        }
        _ => Set::default(),
    }
}

fn item_entry(item: &Value, place: Position<'_>, claim: Claim) -> Entry {
    Entry { member: true, children: contents(item, place, claim) }
}

fn whole(value: &Value, place: Position<'_>) -> Entry {
    item_entry(value, place, Claim::Everything)
}

type Entries = Vec<(Element, Entry)>;

/// Collects what differs below this place, and says whether the place itself is a leaf that was modified.
fn walk(old: &Value, new: &Value, place: Position<'_>, removed: &mut Entries, changed: &mut Entries) -> bool {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) if !place.is_atomic_map() => {
            walk_maps(a, b, place, removed, changed);
            false
        }
        (Value::Array(a), Value::Array(b)) if place.is_associative() => {
            a != b && !walk_lists(a, b, place, removed, changed)
        }
        _ if old == new => false,
        _ => {
            let (before, after) = (below(old, place), below(new, place));
            // Null stands for an empty container; anything else that changes its type is modified itself.
            let filled = old.is_null() && !after.is_empty();
            let emptied = new.is_null() && !before.is_empty();
            removed.extend(before.into_entries());
            changed.extend(after.into_entries());
            !(filled || emptied)
        }
    }
}

fn below(value: &Value, place: Position<'_>) -> Set {
    contents(value, place, Claim::Everything)
}

fn walk_maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    place: Position<'_>,
    removed: &mut Entries,
    changed: &mut Entries,
) {
    for (name, before) in old {
        let here = place.field(name);
        match new.get(name) {
            None => removed.push((Element::field(name), whole(before, here))),
            Some(after) => descend(|| Element::field(name), before, after, here, removed, changed),
        }
    }
    for (name, after) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        changed.push((Element::field(name), whole(after, place.field(name))));
    }
}

fn descend(
    element: impl Fn() -> Element,
    before: &Value,
    after: &Value,
    place: Position<'_>,
    removed: &mut Entries,
    changed: &mut Entries,
) {
    let (mut gone, mut fresh) = (Vec::new(), Vec::new());
    let modified = walk(before, after, place, &mut gone, &mut fresh);
    if !gone.is_empty() {
        removed.push((element(), Entry { member: false, children: Set::from_entries(gone) }));
    }
    if modified || !fresh.is_empty() {
        changed.push((element(), Entry { member: modified, children: Set::from_entries(fresh) }));
    }
}

/// False when an item of either list cannot be addressed, so that the lists are one leaf.
fn walk_lists(
    old: &[Value],
    new: &[Value],
    place: Position<'_>,
    removed: &mut Entries,
    changed: &mut Entries,
) -> bool {
    let (Ok(before), Ok(after)) = (place.elements(old), place.elements(new)) else {
        return false;
    };
    let mut items = BTreeMap::<Element, (Vec<&Value>, Vec<&Value>)>::new();
    for (element, item) in before.into_iter().zip(old) {
        items.entry(element).or_default().0.push(item);
    }
    for (element, item) in after.into_iter().zip(new) {
        items.entry(element).or_default().1.push(item);
    }
    let here = place.items();
    let marker = || Entry { member: true, children: Set::default() };
    for (element, sides) in items {
        match (sides.0.as_slice(), sides.1.as_slice()) {
            ([before], [after]) => descend(|| element.clone(), before, after, here, removed, changed),
            ([before], []) => removed.push((element, whole(before, here))),
            ([], [after]) => changed.push((element, whole(after, here))),
            // Duplicates on one side only: their common marker comes or goes, and a single item's parts with it.
            ([_, _, ..], [after]) => {
                let children = below(after, here);
                changed.push((element, Entry { member: true, children }));
            }
            ([before], [_, _, ..]) => {
                removed.push((element.clone(), Entry { member: false, children: below(before, here) }));
                changed.push((element, marker()));
            }
            ([_, ..], []) => removed.push((element, marker())),
            (before, after) if before != after => changed.push((element, marker())),
            _ => {}
        }
    }
    true
}
