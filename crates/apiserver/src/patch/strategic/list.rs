//! Lists in a strategic merge: keyed items, sets of scalars, and the order they end up in.

use serde_json::Value;

use super::{PATCH, clean, go_text, merge_map, rejected};
use crate::error::ApiError;
use crate::patch::json::unprocessable;
use crate::patch::typed::Position;
use crate::schema::ListType;

fn merge_key(place: Position<'_>) -> Option<&str> {
    let node = place.node()?;
    node.patch_merge_key.as_deref().or(match &node.list_type {
        ListType::Map(keys) => keys.first().map(String::as_str),
        _ => None,
    })
}

/// What makes an item itself: the value under its merge key, or its own value.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    match (item, key) {
        (Value::Object(map), Some(key)) => map.get(key),
        (Value::Object(_) | Value::Array(_), _) => None,
        (scalar, _) => Some(scalar),
    }
}

fn keyed<'v>(item: &'v Value, key: Option<&str>) -> Result<&'v Value, ApiError> {
    identity(item, key).ok_or_else(|| match key {
        Some(key) => rejected(format!("map: {} does not contain declared merge key: {key}", go_text(item))),
        None => rejected("cannot merge lists without merge key".to_owned()),
    })
}

/// Merges the items of `patch` into the list.
pub(super) fn merge(list: &mut Vec<Value>, patch: &[Value], place: Position<'_>) -> Result<(), ApiError> {
    if patch.iter().chain(&*list).any(Value::is_array) {
        // Lists of lists have no strategy.
        return Err(unprocessable());
    }
    let maps = patch.iter().chain(&*list).filter(|item| item.is_object()).count();
    if maps != 0 && maps != patch.len() + list.len() {
        return Err(rejected(
            "expected a list of one type, but received a mix of maps and scalars".to_owned(),
        ));
    }
    let key = merge_key(place);
    if maps == 0 {
        let before = list.clone();
        for item in patch {
            if !list.contains(item) {
                list.push(item.clone());
            }
        }
        return arrange(list, patch, &before, None);
    }
    if key.is_none() {
        return Err(rejected("cannot merge lists without merge key".to_owned()));
    }
    if patch.iter().any(|item| item.get(PATCH).is_some_and(|directive| directive == "replace")) {
        *list = patch.iter().filter(|item| item.get(PATCH).is_none()).filter_map(clean).collect();
        return Ok(());
    }
    let mut plain = Vec::with_capacity(patch.len());
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => plain.push(item.clone()),
            Some("delete") => {
                let gone = keyed(item, key)?;
                list.retain(|old| identity(old, key) != Some(gone));
            }
            Some("merge") => {
                return Err(rejected("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(unknown) => {
                return Err(rejected(format!("unknown patch type: {unknown} in map: {}", go_text(item))));
            }
        }
    }
    let before = list.clone();
    for item in &plain {
        let wanted = keyed(item, key)?;
        match (list.iter_mut().find(|old| identity(old, key) == Some(wanted)), item) {
            (Some(Value::Object(old)), Value::Object(new)) => merge_map(old, new, place.items())?,
            _ => list.extend(clean(item)),
        }
    }
    arrange(list, &plain, &before, key)
}

/// Puts a merged list in the order that `$setElementOrder` asks for.
pub(super) fn reorder(
    list: &mut Vec<Value>,
    order: &[Value],
    before: &[Value],
    place: Position<'_>,
) -> Result<(), ApiError> {
    arrange(list, order, before, merge_key(place))
}

/// Refuses a patch list that `$setElementOrder` does not list in the same order.
pub(super) fn check_order(
    patch: Option<&Value>,
    order: &[Value],
    place: Position<'_>,
) -> Result<(), ApiError> {
    let Some(Value::Array(patch)) = patch else {
        return Ok(());
    };
    let key = merge_key(place);
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let wanted = keyed(item, key)?;
        if !rest.any(|listed| identity(listed, key) == Some(wanted)) {
            return Err(rejected(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go_text(&Value::Array(patch.clone())),
                go_text(&Value::Array(order.to_vec())),
            )));
        }
    }
    Ok(())
}

/// Items that `order` lists come in its order; the others keep their place before or after those they were next to.
fn arrange(
    list: &mut Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Result<(), ApiError> {
    let position = |among: &[Value], item: &Value| {
        let wanted = identity(item, key)?;
        among.iter().position(|other| identity(other, key) == Some(wanted))
    };
    for item in &*list {
        keyed(item, key)?;
    }
    let (mut listed, mut others): (Vec<_>, Vec<_>) =
        list.drain(..).partition(|item| position(order, item).is_some());
    listed.sort_by_key(|item| position(order, item));
    others.sort_by_key(|item| position(before, item));

    let mut others = others.into_iter().peekable();
    for item in listed {
        let place = position(before, &item);
        while let Some(other) = others.peek() {
            let comes_first = matches!((position(before, other), place), (Some(o), Some(p)) if o < p);
            if !comes_first {
                break;
            }
            list.extend(others.next());
        }
        list.push(item);
    }
    list.extend(others);
    Ok(())
}
