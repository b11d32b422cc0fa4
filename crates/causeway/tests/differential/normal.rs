//! What must differ between two servers, replaced by words that say what was there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::client::Answer;

/// Those that a client acts on.
const HEADERS: [&str; 6] = ["content-type", "warning", "retry-after", "cache-control", "allow", "location"];

/// An answer as it is compared. `values` are those that were saved from this server's answers.
pub fn normal(answer: &Answer, pick: Option<&str>, values: &BTreeMap<String, String>) -> Value {
    let mut headers = Map::new();
    for name in HEADERS {
        let found: Vec<&str> = answer.headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect();
        if !found.is_empty() {
            headers.insert(name.to_owned(), json!(found.join(", ")));
        }
    }
    if answer.headers.contains_key("etag") {
        headers.insert("etag".to_owned(), json!("TAG"));
    }
    let picked = pick.map_or(Some(&answer.body), |pointer| answer.body.pointer(pointer));
    let mut body = picked.cloned().unwrap_or(json!("(nothing there)"));
    Normaliser { values }.walk("", &mut body);
    json!({"status": answer.status, "header": headers, "body": body})
}

struct Normaliser<'a> {
    values: &'a BTreeMap<String, String>,
}

impl Normaliser<'_> {
    fn walk(&self, key: &str, value: &mut Value) {
        match value {
            Value::Object(map) => {
                generated_name(map);
                unordered_causes(map);
                revision_of_the_moment(map);
                // Owned entries of a list are named by their keys, which may be uids.
                let renamed = std::mem::take(map)
                    .into_iter()
                    .map(|(key, value)| (words(&key, |word| is_uuid(word).then_some("UID")), value));
                *map = renamed.collect();
                for (key, value) in map {
                    self.walk(key, value);
                }
            }
            Value::Array(items) => {
                // Otherwise by times, so it is chance whether two of them are in the same second.
                if key == "managedFields" {
                    items.sort_by_key(|owner| {
                        ["manager", "operation", "subresource"].map(|f| owner[f].to_string())
                    });
                }
                items.retain(|item| !is_of_passing_group(item));
                for item in items {
                    self.walk(key, item);
                }
            }
            Value::String(text) => *text = self.text(key, text),
            _ => {}
        }
    }

    fn text(&self, key: &str, text: &str) -> String {
        // A list's revision is that of whatever was written last.
        let saved = |name: &&String| self.values[*name] == text && !name.starts_with("list-");
        match key {
            "uid" | "resourceVersion" | "continue" if !text.is_empty() && text != "0" => {
                // One that was saved is said by its name: whether a write changed the revision is compared too.
                let name = self.values.keys().find(saved);
                name.map_or_else(|| key.to_ascii_uppercase(), |name| format!("${name}"))
            }
            "token" => "TOKEN".to_owned(),
            "ca.crt" | "caBundle" => "CERTIFICATE".to_owned(),
            "message" => self.message(text),
            _ if is_time(text) => if text.contains('.') { "MICROTIME" } else { "TIME" }.to_owned(),
            _ if is_age(text) => "AGE".to_owned(),
            "name" if text.starts_with("kube-api-access-") => "kube-api-access-XXXXX".to_owned(),
            _ => words(text, |word| is_service_address(word).then_some("SERVICE-ADDRESS")),
        }
    }

    fn message(&self, text: &str) -> String {
        let mut text = words(text, |word| {
            if is_uuid(word) {
                return Some("UID");
            }
            is_service_address(word).then_some("SERVICE-ADDRESS")
        });
        for (name, value) in self.values.iter().filter(|(_, value)| value.parse::<u64>().is_ok()) {
            text = words(&text, |word| (word == value).then_some(name.as_str()));
        }
        if text.to_ascii_lowercase().contains("resource version") {
            text = words(&text, |word| word.parse::<u64>().is_ok_and(|n| n > 1).then_some("REVISION"));
        }
        text
    }
}

/// A group that another family defines for a while.
fn is_of_passing_group(item: &Value) -> bool {
    let name = item.get("name").or_else(|| item.pointer("/metadata/name"));
    name.is_some_and(|name| name == "differential.example.com")
}

/// A name that the server made up ends with five letters of its choice.
fn generated_name(map: &mut Map<String, Value>) {
    let Some(prefix) = map.get("generateName").and_then(Value::as_str).map(str::to_owned) else { return };
    if let Some(Value::String(name)) = map.get_mut("name")
        && name.strip_prefix(&prefix).is_some_and(|rest| rest.len() == 5)
    {
        *name = format!("{prefix}XXXXX");
    }
}

/// The revision of a list or a bookmark is that of whatever was written last.
fn revision_of_the_moment(map: &mut Map<String, Value>) {
    let place = if map.get("type").is_some_and(|kind| kind == "BOOKMARK") {
        "/object/metadata/resourceVersion"
    } else if map.contains_key("items") || map.contains_key("rows") {
        "/metadata/resourceVersion"
    } else {
        return;
    };
    let mut whole = Value::Object(std::mem::take(map));
    if let Some(revision) = whole.pointer_mut(place) {
        *revision = json!("REVISION");
    }
    if let Value::Object(whole) = whole {
        *map = whole;
    }
}

/// Go goes through maps in any order, so several causes come in any order, and the message that lists them too.
fn unordered_causes(map: &mut Map<String, Value>) {
    let Some(Value::Array(causes)) = map.get_mut("details").and_then(|details| details.get_mut("causes"))
    else {
        return;
    };
    if causes.len() < 2 {
        return;
    }
    causes.sort_by_key(|cause| (cause["field"].to_string(), cause["message"].to_string()));
    if let Some(Value::String(message)) = map.get_mut("message")
        && let Some((subject, _)) = message.split_once(" is invalid: [")
    {
        *message = format!("{subject} is invalid: [CAUSES]");
    }
}

/// Replaces words (letters, digits, hyphens, dots and colons inside).
fn words<'a>(text: &str, replace: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::new();
    let mut rest = text;
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    while let Some(start) = rest.find(inside) {
        out += &rest[..start];
        rest = &rest[start..];
        let end = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let word = rest[..end].trim_end_matches('.');
        out += replace(word).unwrap_or(word);
        rest = &rest[word.len()..];
        if word.is_empty() {
            out += &rest[..1];
            rest = &rest[1..];
        }
    }
    out + rest
}

fn is_uuid(word: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = word.split('-').collect();
    parts.len() == 5
        && parts
            .iter()
            .zip(lengths)
            .all(|(part, length)| part.len() == length && part.chars().all(|c| c.is_ascii_hexdigit()))
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes[13] == b':' && text.ends_with('Z')
}

/// As tables say it: `3s`.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|number| number.parse::<u8>().is_ok())
}

/// One that the server chose for a Service.
fn is_service_address(word: &str) -> bool {
    (word.starts_with("10.96.") || word.starts_with("127.96.")) && word.split('.').count() == 4
}

#[test]
fn says_what_was_there() {
    let values = BTreeMap::from([("first".to_owned(), "41".to_owned())]);
    let normaliser = Normaliser { values: &values };
    let mut value = json!({
        "metadata": {
            "generateName": "a-", "name": "a-bcdfg", "resourceVersion": "41", "creationTimestamp": "2026-11-17T15:00:00Z",
        },
        "message": "UID 0b1e6d2c-1111-4222-8333-444455556666, between 1 and 65535.",
        "spec": {"clusterIP": "10.96.3.4", "renewTime": "2026-11-17T15:00:00.000000Z"},
    });
    normaliser.walk("", &mut value);
    let wanted = json!({
        "metadata": {"generateName": "a-", "name": "a-XXXXX", "resourceVersion": "$first", "creationTimestamp": "TIME"},
        "message": "UID UID, between 1 and 65535.",
        "spec": {"clusterIP": "SERVICE-ADDRESS", "renewTime": "MICROTIME"},
    });
    assert_eq!(value, wanted);
}
