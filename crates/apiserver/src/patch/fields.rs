//! A set of field paths: what one manager owns in an object. The tree mirrors `FieldsV1`, its wire form, and keeps
//! the order in which Kubernetes lists fields.

mod codec;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    /// A key of an object.
    Field(String),
    /// The item of an associative list that has these values under its key fields, sorted by name.
    Key(Vec<(String, Literal)>),
    /// The item of a set that equals this value.
    Value(Literal),
    /// The item at this position.
    Index(i64),
}

/// A JSON value with a total order: numbers, strings, booleans, lists, objects, null.
#[derive(Debug, Clone)]
pub(super) struct Literal(pub Value);

/// Paths, as a tree of sorted steps. No entry is without meaning: each is a member or leads to one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Set {
    entries: Vec<(Element, Entry)>,
}

/// What a set says about one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The path that ends here is in the set.
    pub member: bool,
    /// The paths that go on from here.
    pub children: Set,
}

impl Element {
    /// A field's element, with room for the prefix of its wire form.
    pub(super) fn field(name: &str) -> Self {
        let mut text = String::with_capacity(name.len() + 2);
        text.push_str(name);
        Self::Field(text)
    }
}

impl Entry {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl Set {
    /// Takes entries in any order, each element at most once.
    pub(super) fn from_entries(mut entries: Vec<(Element, Entry)>) -> Self {
        entries.retain(|(_, entry)| !entry.is_empty());
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Self { entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, element: &Element) -> Option<&Entry> {
        self.entries.binary_search_by(|(e, _)| e.cmp(element)).ok().map(|i| &self.entries[i].1)
    }

    /// Like [`Set::get`] with a field's name, without making an element of it.
    pub(super) fn field(&self, name: &str) -> Option<&Entry> {
        self.entries
            .binary_search_by(|(e, _)| match e {
                Element::Field(field) => field.as_str().cmp(name),
                _ => Ordering::Greater,
            })
            .ok()
            .map(|i| &self.entries[i].1)
    }

    pub(super) fn into_entries(self) -> Vec<(Element, Entry)> {
        self.entries
    }

    /// Lets `change` rewrite each entry and drops those it leaves empty.
    pub(super) fn rewrite(&mut self, mut change: impl FnMut(&Element, &mut Entry)) {
        self.entries.retain_mut(|(element, entry)| {
            change(element, entry);
            !entry.is_empty()
        });
    }

    /// Adds every path of `other`.
    pub(super) fn absorb(&mut self, other: Set) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if other.is_empty() {
            return;
        }
        let mut merged = Vec::with_capacity(self.entries.len() + other.entries.len());
        let mut ours = std::mem::take(&mut self.entries).into_iter().peekable();
        let mut theirs = other.entries.into_iter().peekable();
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            match a.0.cmp(&b.0) {
                Ordering::Less => merged.extend(ours.next()),
                Ordering::Greater => merged.extend(theirs.next()),
                Ordering::Equal => {
                    if let (Some((element, mut entry)), Some((_, twin))) = (ours.next(), theirs.next()) {
                        entry.member |= twin.member;
                        entry.children.absorb(twin.children);
                        merged.push((element, entry));
                    }
                }
            }
        }
        merged.extend(ours);
        merged.extend(theirs);
        self.entries = merged;
    }

    /// Takes away every path of `other`; paths below a path of `other` stay.
    pub(super) fn subtract(&mut self, other: &Set) {
        if other.is_empty() {
            return;
        }
        self.rewrite(|element, entry| {
            if let Some(twin) = other.get(element) {
                entry.member &= !twin.member;
                entry.children.subtract(&twin.children);
            }
        });
    }

    /// The paths that are in both.
    pub(super) fn intersection(&self, other: &Set) -> Set {
        let common = |(element, entry): &(Element, Entry)| {
            let twin = other.get(element)?;
            let both = Entry {
                member: entry.member && twin.member,
                children: entry.children.intersection(&twin.children),
            };
            (!both.is_empty()).then(|| (element.clone(), both))
        };
        Set { entries: self.entries.iter().filter_map(common).collect() }
    }

    /// Whether every path of `self` is in `other`.
    pub(super) fn is_subset(&self, other: &Set) -> bool {
        self.entries.iter().all(|(element, entry)| {
            other.get(element).is_some_and(|twin| {
                (!entry.member || twin.member) && entry.children.is_subset(&twin.children)
            })
        })
    }

    /// Every path as text (`.spec.ports[port=80]`), a level's own paths before those further down.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        paths.extend(
            self.entries.iter().filter(|(_, e)| e.member).map(|(element, _)| format!("{prefix}{element}")),
        );
        for (element, entry) in self.entries.iter().filter(|(_, e)| !e.children.is_empty()) {
            entry.children.collect_paths(&format!("{prefix}{element}"), paths);
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={}", if i == 0 { "" } else { "," }, value.0)?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Literal {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Literal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            // Lists and objects never are keys in practice; their text is order enough.
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
                self.0.to_string().cmp(&other.0.to_string())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Literal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Literal {}
