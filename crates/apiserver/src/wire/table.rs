//! What the messages look like on the wire: `messages.txt`, read once.
//!
//! One message a line: its name, then `NUMBER:NAME=TYPE` for each field. NAME is the JSON name, followed by `*` where
//! the field can be unset and still differ from empty, and by `?` where JSON leaves it out when it is unset or empty.
//! NAME `~` is a message whose fields JSON has among those of its holder. TYPE is `s` text, `b` bool, `i` integer,
//! `d` double, `x` bytes, `j` bytes that hold JSON, or a message; `[` before it is a list, `{` a map keyed by text.
//!
//! The facts are those of Kubernetes 1.34: numbers and types as its `generated.proto` files publish them, JSON names
//! and whether a field can be unset or left out as the tags of the same structs say. A newer version is taken over by
//! adding the fields that these files gained, together with the version of k8s-openapi: a test compares the two.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::shape::Shape;

const TEXT: &str = include_str!("messages.txt");

/// Every message that a request can hold.
pub(super) struct Table {
    messages: Vec<Message>,
    by_name: HashMap<&'static str, usize>,
}

/// One message; its fields are sorted by number.
pub(super) struct Message {
    pub name: &'static str,
    pub fields: Vec<Field>,
    pub shape: Shape,
}

/// One field of a message.
pub(super) struct Field {
    pub number: u64,
    pub name: &'static str,
    pub ty: Type,
    pub repeat: Repeat,
    /// Its own fields stand among those of the holder.
    pub inline: bool,
    /// Left out when it has its zero value.
    pub omit_empty: bool,
    /// There even when the sender left it out.
    pub always: bool,
}

/// The type of a field, or of each of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Bool,
    Int,
    Double,
    Bytes,
    Json,
    /// By its place in the table.
    Message(usize),
}

/// How often a field can occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    One,
    List,
    Map,
}

impl Table {
    /// The table, parsed on first use.
    pub(super) fn get() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(Self::parse)
    }

    /// The message of a kind. Requests' options have a version of the group they are sent to.
    pub(super) fn top(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
        let package = match group {
            "core" | "apps" | "autoscaling" => group,
            _ => group
                .strip_suffix(".authorization.k8s.io")
                .or_else(|| group.strip_suffix(".k8s.io"))
                .unwrap_or(""),
        };
        let is_options =
            matches!(kind, "CreateOptions" | "DeleteOptions" | "PatchOptions" | "Status" | "UpdateOptions");
        let name = if is_options { format!("meta.v1.{kind}") } else { format!("{package}.{version}.{kind}") };
        self.by_name.get(name.as_str()).map(|index| self.message(*index))
    }

    pub(super) fn message(&self, index: usize) -> &Message {
        self.messages.get(index).expect("indexes come from the table itself")
    }

    fn parse() -> Self {
        let names = TEXT.lines().map(|line| line.split(' ').next().unwrap_or(line));
        let by_name: HashMap<_, _> = names.enumerate().map(|(index, name)| (name, index)).collect();
        let messages = TEXT.lines().map(|line| Message::parse(line, &by_name)).collect();
        Self { messages, by_name }
    }

    #[cfg(test)]
    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }
}

impl Message {
    fn parse(line: &'static str, by_name: &HashMap<&str, usize>) -> Self {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let fields = words
            .map(|word| {
                Field::parse(word, by_name).expect("the table is part of the program and has this form")
            })
            .collect();
        Self { name, fields, shape: Shape::of(name) }
    }

    /// A field by its number, with its place among the fields.
    pub(super) fn field(&self, number: u64) -> Option<(usize, &Field)> {
        let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(index).map(|field| (index, field))
    }
}

impl Field {
    fn parse(word: &'static str, by_name: &HashMap<&str, usize>) -> Option<Self> {
        let (number, rest) = word.split_once(':')?;
        let (name, ty) = rest.split_once('=')?;
        let omitted = name.strip_suffix('?');
        let name = omitted.unwrap_or(name);
        let pointer = name.strip_suffix('*');
        let name = pointer.unwrap_or(name);
        let (repeat, ty) = match ty.split_at_checked(1)? {
            ("[", item) => (Repeat::List, item),
            ("{", item) => (Repeat::Map, item),
            _ => (Repeat::One, ty),
        };
        let ty = match ty {
            "s" => Type::Text,
            "b" => Type::Bool,
            "i" => Type::Int,
            "d" => Type::Double,
            "x" => Type::Bytes,
            "j" => Type::Json,
            message => Type::Message(*by_name.get(message)?),
        };
        Some(Self {
            number: number.parse().ok()?,
            name,
            ty,
            repeat,
            inline: name == "~",
            omit_empty: omitted.is_some() && pointer.is_none(),
            always: omitted.is_none() && pointer.is_none(),
        })
    }
}
