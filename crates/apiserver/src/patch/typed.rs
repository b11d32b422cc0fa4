//! Walks over a document along its schema: which values are one leaf, which lists are associative, and by what.
//! Where the schema is silent, objects are granular and lists are one leaf.

pub(super) mod compare;
pub(super) mod merge;
pub(super) mod prune;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::fields::{Element, Literal};
use crate::schema::{ListType, MapType, Node, Type};

/// A position in a schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'a> {
    node: Option<&'a Node>,
    /// A whole Kubernetes object, whose metadata has Kubernetes' own schema whatever the schema says.
    object: bool,
}

impl<'a> Position<'a> {
    /// The top of an object's schema.
    pub(super) fn root(schema: &'a Node) -> Self {
        Self { node: Some(schema), object: true }
    }

    pub(super) fn node(self) -> Option<&'a Node> {
        self.node
    }

    pub(super) fn field(self, name: &str) -> Position<'a> {
        if self.object && name == "metadata" {
            return Position { node: Some(&OBJECT_META), object: false };
        }
        let node = self.node.and_then(|node| node.field(name));
        Position { node, object: node.is_some_and(|node| node.embedded_resource) }
    }

    pub(super) fn items(self) -> Position<'a> {
        let node = self.node.and_then(|node| node.items.as_deref());
        Position { node, object: node.is_some_and(|node| node.embedded_resource) }
    }

    /// Where a step of a path leads.
    pub(super) fn step(self, element: &Element) -> Position<'a> {
        match element {
            Element::Field(name) => self.field(name),
            _ => self.items(),
        }
    }

    /// Whether the schema has this field by name, as against a key of a map or a field it does not know.
    pub(super) fn names(self, field: &str) -> bool {
        (self.object && matches!(field, "apiVersion" | "kind" | "metadata"))
            || self.node.is_some_and(|node| node.properties.contains_key(field))
    }

    pub(super) fn is_atomic_map(self) -> bool {
        self.node.is_some_and(|node| node.map_type == MapType::Atomic)
    }

    /// Whether the schema makes whatever stands here one leaf, though it has inner structure.
    pub(super) fn is_atomic(self) -> bool {
        self.node.is_some_and(|node| {
            node.map_type == MapType::Atomic
                || (node.list_type == ListType::Atomic
                    && (node.items.is_some() || node.ty == Some(Type::Array)))
        })
    }

    fn is_associative(self) -> bool {
        self.node.is_some_and(|node| node.list_type != ListType::Atomic)
    }

    /// Whether `value` has paths of its own below this place.
    pub(super) fn is_granular(self, value: &Value) -> bool {
        match value {
            Value::Object(_) => !self.is_atomic_map(),
            Value::Array(_) => self.is_associative(),
            _ => false,
        }
    }

    /// The paths of a list's items; an item that cannot be addressed is an error that says why.
    pub(super) fn elements(self, list: &[Value]) -> Result<Vec<Element>, String> {
        let item = |(i, item)| self.element(item).map_err(|why| format!("element {i}: {why}"));
        list.iter().enumerate().map(item).collect()
    }

    fn element(self, item: &Value) -> Result<Element, String> {
        match self.node.map(|node| &node.list_type) {
            Some(ListType::Map(keys)) => self.keyed(keys, item),
            _ => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                scalar => Ok(Element::Value(Literal(scalar.clone()))),
            },
        }
    }

    fn keyed(self, keys: &[String], item: &Value) -> Result<Element, String> {
        let Value::Object(map) = item else {
            let what = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {what}"));
        };
        let items = self.items();
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            let default = || items.field(key).node.and_then(|node| node.default.as_ref());
            if let Some(value) = map.get(key).or_else(default) {
                fields.push((key.clone(), Literal(value.clone())));
            }
        }
        if fields.is_empty() {
            let names = keys.iter().map(|k| format!("{k:?}")).collect::<Vec<_>>().join(" ");
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{names}] (and doesn't have \
                 default values for any key fields)"
            ));
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Element::Key(fields))
    }
}

/// What Kubernetes says of `metadata`, of which a custom resource's schema need not speak.
static OBJECT_META: LazyLock<Node> = LazyLock::new(|| {
    let scalar = |ty| Node { ty: Some(ty), ..Node::default() };
    let text = || Arc::new(scalar(Type::String));
    let map = || Node { additional: Some(text()), ..scalar(Type::Object) };
    let merge = Some("merge".to_owned());
    let mut properties = BTreeMap::new();
    for name in [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
    ] {
        properties.insert(name.to_owned(), text());
    }
    for name in ["generation", "deletionGracePeriodSeconds"] {
        properties.insert(name.to_owned(), Arc::new(scalar(Type::Integer)));
    }
    properties.insert("labels".to_owned(), Arc::new(map()));
    properties.insert("annotations".to_owned(), Arc::new(map()));
    properties.insert(
        "finalizers".to_owned(),
        Arc::new(Node {
            items: Some(text()),
            list_type: ListType::Set,
            patch_strategy: merge.clone(),
            ..scalar(Type::Array)
        }),
    );
    properties.insert(
        "ownerReferences".to_owned(),
        Arc::new(Node {
            items: Some(Arc::new(Node { map_type: MapType::Atomic, ..scalar(Type::Object) })),
            list_type: ListType::Map(vec!["uid".to_owned()]),
            patch_merge_key: Some("uid".to_owned()),
            patch_strategy: merge,
            ..scalar(Type::Array)
        }),
    );
    properties.insert("managedFields".to_owned(), Arc::new(scalar(Type::Array)));
    Node { properties, ..scalar(Type::Object) }
});
