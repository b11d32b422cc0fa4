//! Strategic merge: a merge patch that knows which lists are keyed, with directives for what a plain document
//! cannot say. For built-in kinds, whose schemas carry merge keys and strategies.

mod list;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::typed::Position;
use crate::error::{ApiError, Reason};
use crate::schema::Node;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Lays a strategic merge patch over a copy of `target`. No directive is left in the result.
pub(crate) fn strategic_merge(target: &Value, patch: &Value, schema: &Node) -> Result<Value, ApiError> {
    let (Some(target), Some(patch)) = (target.as_object(), patch.as_object()) else {
        return Err(ApiError::bad_request("invalid JSON document"));
    };
    let mut result = target.clone();
    merge_map(&mut result, patch, Position::root(schema))?;
    Ok(Value::Object(result))
}

/// A patch that contradicts itself or the object.
fn rejected(message: String) -> ApiError {
    ApiError::new(500, Reason::Unknown, message)
}

fn merge_map(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    place: Position<'_>,
) -> Result<(), ApiError> {
    match patch.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            *original = clean_map(patch);
            return Ok(());
        }
        Some("delete") => {
            original.clear();
            return Ok(());
        }
        Some(unknown) => {
            let map = go_text(&Value::Object(patch.clone()));
            return Err(rejected(format!("unknown patch type: {unknown} in map: {map}")));
        }
    }
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        retain_keys(original, patch, keys)?;
    }
    for (key, values) in patch {
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            let values = values
                .as_array()
                .ok_or_else(|| ApiError::bad_request("invalid patch format of primitive list"))?;
            if let Some(Value::Array(list)) = original.get_mut(field) {
                list.retain(|item| !values.contains(item));
            }
        }
    }
    // The order directive speaks of the list as it was before this patch.
    let mut orders = Vec::new();
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(ELEMENT_ORDER) {
            let order = order
                .as_array()
                .ok_or_else(|| ApiError::bad_request("invalid patch format of setElementOrder list"))?;
            let before = original.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
            list::check_order(patch.get(field), order, place.field(field))?;
            orders.push((field, order, before));
        }
    }
    for (key, value) in patch {
        if !is_directive(key) {
            merge_field(original, key, value, place.field(key))?;
        }
    }
    for (field, order, before) in orders {
        if let Some(Value::Array(list)) = original.get_mut(field) {
            list::reorder(list, order, &before, place.field(field))?;
        }
    }
    Ok(())
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    place: Position<'_>,
) -> Result<(), ApiError> {
    match (original.get_mut(key), value) {
        (_, Value::Null) => original.retain(|name, _| name != key),
        (Some(Value::Object(old)), Value::Object(new)) if !has_strategy(place, "replace") => {
            merge_map(old, new, place)?;
        }
        (Some(Value::Array(old)), Value::Array(new)) if has_strategy(place, "merge") => {
            list::merge(old, new, place)?;
        }
        _ => match clean(value) {
            Some(value) => {
                original.insert(key.to_owned(), value);
            }
            None => original.retain(|name, _| name != key),
        },
    }
    Ok(())
}

fn has_strategy(place: Position<'_>, strategy: &str) -> bool {
    place
        .node()
        .and_then(|node| node.patch_strategy.as_deref())
        .is_some_and(|text| text.split(',').any(|word| word.trim() == strategy))
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(ELEMENT_ORDER)
}

fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    keys: &Value,
) -> Result<(), ApiError> {
    let bad = || ApiError::bad_request("invalid patch format of retainKeys");
    let keys = keys.as_array().ok_or_else(bad)?;
    let listed = |key: &str| keys.iter().any(|k| k == key);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !listed(key)) {
        return Err(bad());
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

/// A value of the patch as it enters the object: no directives, no nulls. `None` when it only deletes.
fn clean(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Object(map) if map.get(PATCH).is_some_and(|directive| directive == "delete") => return None,
        Value::Object(map) => Value::Object(clean_map(map)),
        Value::Array(list) => list.iter().filter_map(clean).collect(),
        scalar => scalar.clone(),
    })
}

fn clean_map(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(key, value)| !is_directive(key) && !value.is_null())
        .filter_map(|(key, value)| Some((key.clone(), clean(value)?)))
        .collect()
}

/// A value the way Kubernetes' messages print it: `map[image:x name:y]`.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().map(|(k, v)| format!("{k}:{}", go_text(v))).collect();
            fields.sort();
            format!("map[{}]", fields.join(" "))
        }
        scalar => scalar.to_string(),
    }
}
