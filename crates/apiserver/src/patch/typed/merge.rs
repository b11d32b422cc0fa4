//! Laying an applied document over the live one, list by list as the schema says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Position;
use crate::patch::fields::Element;

/// The live document with every field of the applied one. Nothing is removed.
pub(crate) fn merge(live: &Value, applied: &Value, place: Position<'_>) -> Value {
    match (live, applied) {
        (Value::Object(a), Value::Object(b)) if !place.is_atomic_map() => {
            Value::Object(merge_maps(a, b, place))
        }
        (Value::Array(a), Value::Array(b)) if place.is_associative() => {
            merge_lists(a, b, place).map_or_else(|| applied.clone(), Value::Array)
        }
        // Null is an empty container, which takes nothing away.
        (Value::Object(a), Value::Null) if !place.is_atomic_map() && !a.is_empty() => live.clone(),
        (Value::Array(a), Value::Null) if place.is_associative() && !a.is_empty() => live.clone(),
        _ => applied.clone(),
    }
}

/// Refuses an applied document with a list whose items cannot be told apart. The error starts with the path.
pub(crate) fn check(document: &Value, place: Position<'_>) -> Result<(), String> {
    match document {
        Value::Object(map) if !place.is_atomic_map() => map.iter().try_for_each(|(name, child)| {
            check(child, place.field(name)).map_err(|why| format!(".{name}{why}"))
        }),
        Value::Array(list) if place.is_associative() => {
            let elements = place.elements(list).map_err(|why| format!(": {why}"))?;
            let mut seen = BTreeSet::new();
            for (element, item) in elements.into_iter().zip(list) {
                check(item, place.items()).map_err(|why| format!("{element}{why}"))?;
                if seen.contains(&element) {
                    return Err(format!(": duplicate entries for key {element}"));
                }
                seen.insert(element);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn merge_maps(
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
    place: Position<'_>,
) -> Map<String, Value> {
    let mut merged = Map::with_capacity(live.len().max(applied.len()));
    for (name, value) in live {
        let value =
            applied.get(name).map_or_else(|| value.clone(), |new| merge(value, new, place.field(name)));
        merged.insert(name.clone(), value);
    }
    for (name, value) in applied.iter().filter(|(name, _)| !live.contains_key(*name)) {
        merged.insert(name.clone(), value.clone());
    }
    merged
}

/// Applied items stand in the applied order, the others keep their place among their neighbours. `None` when an
/// item of either list cannot be addressed.
fn merge_lists(live: &[Value], applied: &[Value], place: Position<'_>) -> Option<Vec<Value>> {
    let live_elements = place.elements(live).ok()?;
    let applied_elements = place.elements(applied).ok()?;
    let mut index = BTreeMap::<&Element, Option<&Value>>::new();
    for (element, item) in live_elements.iter().zip(live) {
        // Of two live items with one key neither is the one to merge with.
        index.entry(element).and_modify(|seen| *seen = None).or_insert(Some(item));
    }
    let position: BTreeMap<&Element, usize> =
        applied_elements.iter().enumerate().map(|(i, element)| (element, i)).collect();

    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let mut emitted = 0;
    let emit_through = |end: usize, emitted: &mut usize, merged: &mut Vec<Value>| {
        for i in *emitted..end {
            let twin = index.get(&applied_elements[i]).copied().flatten();
            merged.push(
                twin.map_or_else(|| applied[i].clone(), |twin| merge(twin, &applied[i], place.items())),
            );
        }
        *emitted = end.max(*emitted);
    };
    for (element, item) in live_elements.iter().zip(live) {
        match position.get(element) {
            None => merged.push(item.clone()),
            // The next applied item that is also live pulls in the new ones before it; an item that is due later
            // waits for its turn.
            Some(&i)
                if i >= emitted && !applied_elements[emitted..i].iter().any(|e| index.contains_key(e)) =>
            {
                emit_through(i + 1, &mut emitted, &mut merged);
            }
            Some(_) => {}
        }
    }
    emit_through(applied.len(), &mut emitted, &mut merged);
    Some(merged)
}
