//! `FieldsV1`: the JSON form of a set, with `f:`, `k:`, `v:` and `i:` keys and `.` for the path itself.

use serde_json::{Map, Value};

use super::{Element, Entry, Literal, Set};

/// A `fieldsV1` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadFields {
    #[error("expected an object of fields, got {0}")]
    NotAnObject(String),
    #[error("cannot parse the path element {0:?}")]
    BadElement(String),
}

impl Set {
    /// The set as `fieldsV1`.
    pub(crate) fn into_json(self) -> Value {
        self.encode(false)
    }

    fn encode(self, member: bool) -> Value {
        let mut map = Map::with_capacity(self.entries.len() + usize::from(member));
        if member {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, entry) in self.entries {
            let value = if entry.children.is_empty() {
                Value::Object(Map::new())
            } else {
                entry.children.encode(entry.member)
            };
            map.insert(element.encode(), value);
        }
        Value::Object(map)
    }

    /// Reads `fieldsV1`. Kinds of element that a later version may bring are skipped.
    pub(crate) fn from_json(fields: &Value) -> Result<Set, BadFields> {
        Ok(decode(fields)?.children)
    }
}

fn decode(fields: &Value) -> Result<Entry, BadFields> {
    let map = fields.as_object().ok_or_else(|| BadFields::NotAnObject(fields.to_string()))?;
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map {
        if key == "." {
            continue;
        }
        if let Some(element) = Element::decode(key)? {
            entries.push((element, decode(value)?));
        }
    }
    let mut children = Set::from_entries(entries);
    // Two spellings of one key (`{"a":1}` and `{"a": 1}`) are one element.
    children.entries.dedup_by(|twin, kept| {
        let same = twin.0 == kept.0;
        if same {
            kept.1.member |= twin.1.member;
            kept.1.children.absorb(std::mem::take(&mut twin.1.children));
        }
        same
    });
    Ok(Entry { member: map.contains_key(".") || children.is_empty(), children })
}

impl Element {
    fn encode(self) -> String {
        match self {
            Self::Field(mut name) => {
                name.insert_str(0, "f:");
                name
            }
            Self::Key(fields) => {
                let mut key = String::from("k:{");
                for (i, (name, value)) in fields.into_iter().enumerate() {
                    if i > 0 {
                        key.push(',');
                    }
                    key.push_str(&Value::String(name).to_string());
                    key.push(':');
                    key.push_str(&value.0.to_string());
                }
                key.push('}');
                key
            }
            Self::Value(value) => format!("v:{}", value.0),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn decode(key: &str) -> Result<Option<Self>, BadFields> {
        let bad = || BadFields::BadElement(key.to_owned());
        if key.len() < 2 || key.as_bytes()[1] != b':' {
            return Err(bad());
        }
        let rest = &key[2..];
        Ok(Some(match key.as_bytes()[0] {
            b'f' => Self::Field(rest.to_owned()),
            b'k' => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| bad())?;
                let mut fields: Vec<_> = fields.into_iter().map(|(name, v)| (name, Literal(v))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Key(fields)
            }
            b'v' => Self::Value(Literal(serde_json::from_str(rest).map_err(|_| bad())?)),
            b'i' => Self::Index(rest.parse().map_err(|_| bad())?),
            _ => return Ok(None),
        }))
    }
}
