//! One level of a structural schema, as plain data.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The schema of one value. Children are shared: one `PodSpec` serves every workload kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Node {
    /// `None` accepts any type (an unspecified type, or `x-kubernetes-int-or-string`).
    pub ty: Option<Type>,
    pub properties: BTreeMap<String, Arc<Node>>,
    /// Schema of the values of a map; excludes `properties` in a structural schema.
    pub additional: Option<Arc<Node>>,
    pub items: Option<Arc<Node>>,
    pub required: Vec<String>,
    pub nullable: bool,
    pub default: Option<Value>,
    pub enumeration: Vec<Value>,
    pub format: Option<String>,
    pub pattern: Option<String>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    /// Value-only branches; they validate but neither prune nor default.
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
    pub preserve_unknown_fields: bool,
    pub int_or_string: bool,
    pub embedded_resource: bool,
    pub list_type: ListType,
    pub map_type: MapType,
    /// The key of a strategic merge, where it differs from `ListType::Map` (built-in kinds only).
    pub patch_merge_key: Option<String>,
    /// `x-kubernetes-patch-strategy`: contains `merge`, `replace` or `retainKeys` (built-in kinds only).
    pub patch_strategy: Option<String>,
    /// The raw `x-kubernetes-validations` list, empty when there is none.
    pub validations: Vec<Value>,
    pub description: Option<String>,
}

/// The JSON type a value must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

/// How server-side apply treats a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    /// Associative, by these fields of the items.
    Map(Vec<String>),
}

/// How server-side apply treats an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MapType {
    #[default]
    Granular,
    Atomic,
}

impl Node {
    /// The schema of a child field: a named property, else the map's value schema.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(self.additional.as_ref()).map(Arc::as_ref)
    }
}
