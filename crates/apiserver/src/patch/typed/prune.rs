//! Taking fields out of a document, and fitting field sets to a schema.

use serde_json::Value;

use super::Position;
use crate::patch::fields::{Element, Set};

/// Removes the set's members with all that is below them. True when nothing is left of a container.
pub(crate) fn remove(value: &mut Value, fields: &Set, place: Position<'_>) -> bool {
    if fields.is_empty() || !place.is_granular(value) {
        return false;
    }
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.retain(|name, child| match fields.field(name) {
                Some(entry) => !entry.member && !remove(child, &entry.children, place.field(name)),
                None => true,
            });
            map.is_empty()
        }
        Value::Array(list) if !list.is_empty() => {
            let Ok(elements) = place.elements(list) else {
                return false;
            };
            let mut elements = elements.into_iter();
            list.retain_mut(|item| match elements.next().as_ref().and_then(|element| fields.get(element)) {
                Some(entry) => !entry.member && !remove(item, &entry.children, place.items()),
                None => true,
            });
            list.is_empty()
        }
        _ => false,
    }
}

/// Makes a member of every struct field on the way to a member. Keys of maps and items of lists stay as they are.
pub(crate) fn with_named_parents(mut fields: Set, place: Position<'_>) -> Set {
    mark_named(&mut fields, place);
    fields
}

fn mark_named(fields: &mut Set, place: Position<'_>) {
    fields.rewrite(|element, entry| {
        if let Element::Field(name) = element {
            entry.member |= place.names(name);
        }
        mark_named(&mut entry.children, place.step(element));
    });
}

/// Folds what was granular when the set was written and has become one leaf since. True when there was any.
pub(crate) fn fold_atomics(fields: &mut Set, place: Position<'_>) -> bool {
    let mut folded = false;
    if place.node().is_none() {
        return folded;
    }
    fields.rewrite(|element, entry| {
        let here = place.step(element);
        if entry.children.is_empty() {
            return;
        }
        if here.is_atomic() {
            entry.member = true;
            entry.children = Set::default();
            folded = true;
        } else {
            folded |= fold_atomics(&mut entry.children, here);
        }
    });
    folded
}
