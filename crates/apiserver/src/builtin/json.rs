//! Reading and filling fields of plain JSON, where `null` counts as absent and a value of the wrong type is left
//! for the schema to refuse.

use serde_json::{Map, Value};

/// Whether the field is there and not null.
pub(super) fn is_set(object: &Value, key: &str) -> bool {
    !object[key].is_null()
}

/// The field as text, empty when absent.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// The field as a whole number.
pub(super) fn int(object: &Value, key: &str) -> Option<i64> {
    object[key].as_i64()
}

pub(super) fn flag(object: &Value, key: &str) -> bool {
    object[key].as_bool().unwrap_or_default()
}

/// The items of a list, none when absent.
pub(super) fn items<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

/// The entries of a map, none when absent.
pub(super) fn entries<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object[key].as_object().into_iter().flatten()
}

/// The texts of a list of strings.
pub(super) fn texts<'a>(object: &'a Value, key: &str) -> Vec<&'a str> {
    items(object, key).iter().filter_map(Value::as_str).collect()
}

/// Sets the field unless it has a value already.
pub(super) fn fill(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut()
        && map.get(key).is_none_or(Value::is_null)
    {
        map.insert(key.to_owned(), value.into());
    }
}

/// Like `fill`, but an empty string or list and zero count as absent too, as they do for fields without a pointer
/// in Kubernetes' types.
pub(super) fn fill_empty(object: &mut Value, key: &str, value: impl Into<Value>) {
    let empty = match &object[key] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    };
    if empty && let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}

/// The map at `key` for change, if there is one.
pub(super) fn child<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    object.as_object_mut()?.get_mut(key).filter(|v| v.is_object())
}

/// The map at `key` for change, made if absent; `None` if something else is there.
pub(super) fn made<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    fill(object, key, Map::new());
    child(object, key)
}

/// The items of the list at `key`, for change.
pub(super) fn items_mut<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.as_object_mut().and_then(|m| m.get_mut(key)).and_then(Value::as_array_mut).into_iter().flatten()
}
