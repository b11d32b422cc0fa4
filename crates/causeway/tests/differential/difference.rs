//! Where two answers differ: one line for each field.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// One field that is not the same.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub field: String,
    /// The items are the same, in another order.
    pub is_order: bool,
    ours: Option<String>,
    theirs: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| value.as_deref().map_or_else(|| "(none)".to_owned(), shortened);
        write!(f, "  {}\n    ours:   {}\n    theirs: {}", self.field, text(&self.ours), text(&self.theirs))
    }
}

/// Large parts are said by their beginning.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 500;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// All differences between two answers. Bodies of different kinds, such as an object and a refusal, are one difference.
pub fn between(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    let kind = |answer: &Value| answer.pointer("/body/kind").cloned();
    if kind(&ours) != kind(&theirs) {
        let (ours, theirs) = (ours["body"].take(), theirs["body"].take());
        let text = |body: &Value| Some(body.get("message").unwrap_or(body).to_string());
        let field = "body".to_owned();
        found.push(Difference { field, is_order: false, ours: text(&ours), theirs: text(&theirs) });
    }
    walk("", Some(&ours), Some(&theirs), &mut found);
    found
}

fn walk(field: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<Difference>) {
    let below = |key: &str| if field.is_empty() { key.to_owned() } else { format!("{field}.{key}") };
    match (ours, theirs) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for key in keys {
                walk(&below(key), ours.get(key), theirs.get(key), found);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => {
            if let (Some(our_names), Some(their_names)) = (names(ours), names(theirs)) {
                walk_named(field, (ours, &our_names), (theirs, &their_names), found);
            } else {
                for number in 0..ours.len().max(theirs.len()) {
                    walk(&format!("{field}[{number}]"), ours.get(number), theirs.get(number), found);
                }
            }
        }
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => found.push(Difference {
            field: field.to_owned(),
            is_order: false,
            ours: ours.map(ToString::to_string),
            theirs: theirs.map(ToString::to_string),
        }),
    }
}

/// Items of a list that have names are compared by them; that their order differs is one difference.
fn walk_named(
    field: &str,
    (ours, our_names): (&[Value], &[&str]),
    (theirs, their_names): (&[Value], &[&str]),
    found: &mut Vec<Difference>,
) {
    let all: BTreeSet<&str> = our_names.iter().chain(their_names).copied().collect();
    let item = |items: &'_ [Value], names: &[&str], name: &str| {
        names.iter().position(|n| *n == name).map(|at| items[at].clone())
    };
    for name in &all {
        let (one, other) = (item(ours, our_names, name), item(theirs, their_names, name));
        walk(&format!("{field}[{name}]"), one.as_ref(), other.as_ref(), found);
    }
    let common = |names: &[&str], others: &[&str]| {
        names.iter().filter(|name| others.contains(name)).map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    let (our_order, their_order) = (common(our_names, their_names), common(their_names, our_names));
    if our_order != their_order {
        found.push(Difference {
            field: field.to_owned(),
            is_order: true,
            ours: Some(our_order.join(" ")),
            theirs: Some(their_order.join(" ")),
        });
    }
}

/// The names of all items, if they have different ones: their own, or that of the resource.
fn names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<&str> = items
        .iter()
        .map(|item| {
            let places = ["/name", "/metadata/name", "/resource", "/subresource"];
            places.iter().find_map(|place| item.pointer(place)?.as_str())
        })
        .collect::<Option<_>>()?;
    let different: BTreeSet<&&str> = names.iter().collect();
    (different.len() == names.len()).then_some(names)
}

#[test]
fn says_the_field() {
    use serde_json::json;
    let ours = json!({"items": [{"name": "a", "x": 1}, {"name": "b"}], "l": [1, 2]});
    let theirs = json!({"items": [{"name": "b"}, {"name": "a", "x": 2}, {"name": "c"}], "l": [1]});
    let fields: Vec<String> = between(&ours, &theirs).into_iter().map(|d| d.field).collect();
    assert_eq!(fields, ["items[a].x", "items[c]", "items", "l[1]"]);
}
