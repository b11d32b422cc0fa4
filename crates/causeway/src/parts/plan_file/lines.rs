//! The lines of a document's fields, to say where a problem is.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The lines of every field of a document.
pub(crate) struct Lines(Option<Spanned<Node>>);

/// A value of a document, as far as it leads to others.
enum Node {
    Map(Vec<(String, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
    Scalar,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self(serde_saphyr::from_str_with_options(text, super::shape::options()).ok())
    }

    /// The line of a field like `listeners[0].bind`, or of what it would be in if it is not written.
    pub(crate) fn line(&self, path: &str) -> Option<u64> {
        let mut at = self.0.as_ref()?;
        let mut line = None;
        for step in path.split(['.', '[']) {
            let below = match &at.value {
                Node::Map(fields) => fields.iter().find(|(name, _)| name == step).map(|(_, value)| value),
                Node::List(items) => {
                    step.strip_suffix(']').and_then(|index| items.get(index.parse::<usize>().ok()?))
                }
                Node::Scalar => None,
            };
            let Some(below) = below else { break };
            at = below;
            line = Some(at.referenced.line());
        }
        line
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_fields_and_what_a_missing_field_would_be_in() {
        let lines = Lines::of(
            "listeners:\n- name: a\n- name: b\n  protocol:\n    tls:\n      routes:\n      - {name: r, serverNames: [x,\n          y]}\nclusters: []\n",
        );
        for (path, line) in [
            ("listeners[0].name", 2),
            ("listeners[1].protocol.tls.routes[0].serverNames[1]", 8),
            ("listeners[1].protocol.tls.noServerName.forward", 6),
            ("clusters[7]", 9),
        ] {
            assert_eq!(lines.line(path), Some(line), "{path}");
        }
        assert_eq!(lines.line("links[0]"), None);
        assert_eq!(Lines::of("a: [").line("a"), None);
    }
}
