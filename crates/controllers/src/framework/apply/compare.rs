//! Whether a live object already is what would be applied. The digest of the last applied form, kept as an annotation
//! on the object itself, tells when a field is no longer wanted; the field-by-field comparison tells when someone has
//! changed one that is. Both survive a restart of the operator.

use causeway_api::names;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Map, Value};

/// True when applying `body` would change nothing.
pub(super) fn is_applied(live: &DynamicObject, body: &Map<String, Value>) -> bool {
    let wanted_digest = body
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations")?.get(names::ANNOTATION_SPEC_HASH)?.as_str());
    let live_digest = live.annotations().get(names::ANNOTATION_SPEC_HASH).map(String::as_str);
    if wanted_digest != live_digest {
        return false;
    }
    let Ok(Value::Object(live)) = serde_json::to_value(live) else {
        return false;
    };
    covers_object(&live, body)
}

/// A short, stable digest of a desired object: FNV-1a, 64 bits. Only equality with our own earlier digest matters.
pub(crate) fn digest(body: &Map<String, Value>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    absorb_object(&mut hash, body);
    format!("{hash:016x}")
}

/// Removes members that are null, which server-side apply would take as a wish to own an empty field.
pub(super) fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// True when `live` has everything that `wanted` names. The server may add defaults to objects, also inside lists;
/// a list of another length is another list.
fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => covers_object(live, wanted),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

fn covers_object(live: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, wanted)| {
        live.get(key).is_some_and(|live| match (live, wanted) {
            (Value::Array(live), Value::Array(wanted)) if NAMED_LISTS.contains(&key.as_str()) => {
                covers_by_name(live, wanted)
            }
            (live, wanted) => covers(live, wanted),
        })
    })
}

/// Lists whose items are told apart by their names: an apply leaves what others have in them, and the order in which they came.
const NAMED_LISTS: &[&str] = &["listeners"];

fn covers_by_name(live: &[Value], wanted: &[Value]) -> bool {
    let of_name = |name: &Value| live.iter().find(|item| item["name"] == *name);
    wanted.iter().all(|wanted| of_name(&wanted["name"]).is_some_and(|live| covers(live, wanted)))
}

fn absorb(hash: &mut u64, value: &Value) {
    match value {
        Value::Object(members) => absorb_object(hash, members),
        Value::Array(items) => {
            absorb_bytes(hash, b"[");
            for item in items {
                absorb(hash, item);
            }
            absorb_bytes(hash, b"]");
        }
        scalar => {
            absorb_bytes(hash, scalar.to_string().as_bytes());
            absorb_bytes(hash, b",");
        }
    }
}

/// Members count in the order of their names, whatever order the map keeps.
fn absorb_object(hash: &mut u64, members: &Map<String, Value>) {
    let mut keys: Vec<_> = members.keys().collect();
    keys.sort_unstable();
    absorb_bytes(hash, b"{");
    for key in keys {
        absorb_bytes(hash, key.as_bytes());
        absorb_bytes(hash, b":");
        absorb(hash, &members[key]);
    }
    absorb_bytes(hash, b"}");
}

fn absorb_bytes(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn live_objects_may_have_more_but_not_other() {
        for (live, wanted, covered) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!({}), json!({"a": 2}), false),
            (json!({"l": [{"a": 1, "default": true}]}), json!({"l": [{"a": 1}]}), true),
            (json!({"l": [{"a": 1}, {"a": 2}]}), json!({"l": [{"a": 1}]}), false),
            (json!({"l": [2, 1]}), json!({"l": [1, 2]}), false),
            (json!({"a": "1"}), json!({"a": 1}), false),
            // As an API server keeps them: in the order in which they came, with those of others.
            (
                json!({"listeners": [{"name": "b"}, {"name": "a", "port": 1}, {"name": "theirs"}]}),
                json!({"listeners": [{"name": "a"}, {"name": "b"}]}),
                true,
            ),
            (
                json!({"listeners": [{"name": "a"}]}),
                json!({"listeners": [{"name": "a"}, {"name": "b"}]}),
                false,
            ),
            (
                json!({"listeners": [{"name": "a", "port": 1}]}),
                json!({"listeners": [{"name": "a", "port": 2}]}),
                false,
            ),
        ] {
            assert_eq!(covers(&live, &wanted), covered, "{live} covers {wanted}");
        }
    }

    #[test]
    fn the_digest_ignores_member_order_and_sees_every_change() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let base = digest(&object(json!({"a": {"x": 1, "y": [1, 2]}, "b": "c"})));
        assert_eq!(base, digest(&object(json!({"b": "c", "a": {"y": [1, 2], "x": 1}}))));
        for other in [
            json!({"a": {"x": 1, "y": [2, 1]}, "b": "c"}),
            json!({"a": {"x": 1, "y": [12]}, "b": "c"}),
            json!({"a": {"x": 1, "y": [1, 2], "b": "c"}}),
            json!({"a": {"x": 1, "y": [1, 2]}}),
        ] {
            assert_ne!(base, digest(&object(other.clone())), "{other}");
        }
    }

    #[test]
    fn nulls_are_stripped_at_every_depth() {
        let mut value = json!({"a": null, "b": {"c": null, "d": [{"e": null, "f": 1}]}});
        strip_nulls(&mut value);
        assert_eq!(value, json!({"b": {"d": [{"f": 1}]}}));
    }
}
