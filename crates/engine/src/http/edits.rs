//! Changes of headers, compiled: whatever order the filters of a route stand in, each name is kept or dropped, and some
//! lines are added at the end.

use causeway_ir::http::HeaderChange;

/// What is changed of a head's fields.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    dropped: Box<[Box<str>]>,
    added: Box<[u8]>,
}

impl Edits {
    /// The sum of changes, made one after the other.
    pub(crate) fn compile<'a>(changes: impl Iterator<Item = &'a HeaderChange>) -> Self {
        let mut names: Vec<(&str, bool, Vec<&str>)> = Vec::new();
        for change in changes {
            for header in &change.set {
                *of(&mut names, header.name.as_str()) = (header.name.as_str(), true, vec![&header.value]);
            }
            for header in &change.add {
                of(&mut names, header.name.as_str()).2.push(&header.value);
            }
            for name in &change.remove {
                *of(&mut names, name.as_str()) = (name.as_str(), true, Vec::new());
            }
        }
        let mut added = Vec::new();
        for (name, _, values) in &names {
            for value in values {
                for part in [name, ": ", value, "\r\n"] {
                    added.extend_from_slice(part.as_bytes());
                }
            }
        }
        let dropped = names.iter().filter(|(_, drops, _)| *drops).map(|(name, ..)| (*name).into());
        Self { dropped: dropped.collect(), added: added.into() }
    }

    /// Whether nothing is changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.added.is_empty()
    }

    /// Whether no field is left out.
    pub(crate) fn drops_nothing(&self) -> bool {
        self.dropped.is_empty()
    }

    /// Whether fields of this name are left out.
    pub(crate) fn drops(&self, name: &[u8]) -> bool {
        self.dropped.iter().any(|dropped| name.eq_ignore_ascii_case(dropped.as_bytes()))
    }

    /// The lines that are added.
    pub(crate) fn added(&self) -> &[u8] {
        &self.added
    }
}

fn of<'n, 'a>(
    names: &'n mut Vec<(&'a str, bool, Vec<&'a str>)>,
    name: &'a str,
) -> &'n mut (&'a str, bool, Vec<&'a str>) {
    let place = names.iter().position(|(known, ..)| *known == name).unwrap_or_else(|| {
        names.push((name, false, Vec::new()));
        names.len() - 1
    });
    &mut names[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_made_one_after_the_other() {
        let changes: Vec<HeaderChange> = serde_saphyr::from_str(
            "- {set: [{name: A, value: '1'}], add: [{name: a, value: '2'}, {name: b, value: '3'}], remove: [c]}\n\
             - {add: [{name: c, value: '4'}], remove: [d], set: [{name: b, value: '5'}]}\n\
             - {set: [{name: d, value: '6'}]}",
        )
        .unwrap();
        let edits = Edits::compile(changes.iter());
        let added = std::str::from_utf8(edits.added()).unwrap();
        assert_eq!(added, "a: 1\r\na: 2\r\nb: 5\r\nc: 4\r\nd: 6\r\n");
        for (name, drops) in [("A", true), ("b", true), ("C", true), ("d", true), ("e", false)] {
            assert_eq!(edits.drops(name.as_bytes()), drops, "{name}");
        }
        let only_added: HeaderChange = serde_saphyr::from_str("add: [{name: b, value: '3'}]").unwrap();
        assert!(!Edits::compile([&only_added].into_iter()).drops(b"b"));
    }
}
