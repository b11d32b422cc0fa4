//! Turns the component schemas into shared `Node`s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CRD_PACKAGE, REF_PREFIX, is_any_json};
use crate::schema::{ListType, MapType, Node, Type};

/// Required fields of the documents that the API takes as their zero value when they are left out.
const OPTIONAL: &[(&str, &str)] = &[
    ("io.k8s.api.authentication.v1.TokenRequestSpec", "audiences"),
    ("io.k8s.api.core.v1.HTTPHeader", "value"),
    ("io.k8s.api.core.v1.Sysctl", "value"),
    ("io.k8s.api.discovery.v1.EndpointSlice", "endpoints"),
    ("io.k8s.api.networking.v1.NetworkPolicySpec", "podSelector"),
    ("io.k8s.api.rbac.v1.RoleRef", "apiGroup"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames", "kind"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames", "plural"),
];

/// Every named schema as a node.
pub(super) fn convert(raw: &Map<String, Value>) -> BTreeMap<String, Arc<Node>> {
    let mut builder = Builder { raw, done: BTreeMap::new(), open: BTreeSet::new() };
    for name in raw.keys() {
        builder.named(name);
    }
    builder.done
}

struct Builder<'a> {
    raw: &'a Map<String, Value>,
    done: BTreeMap<String, Arc<Node>>,
    /// Names on the way down, to notice a type that contains itself.
    open: BTreeSet<String>,
}

impl Builder<'_> {
    fn named(&mut self, name: &str) -> Arc<Node> {
        if let Some(node) = self.done.get(name) {
            return node.clone();
        }
        if !self.open.insert(name.to_owned()) {
            return Arc::new(anything(Some(Type::Object)));
        }
        let node = match self.raw.get(name) {
            Some(schema) => Arc::new(self.top(name, schema)),
            None => Arc::new(anything(None)),
        };
        self.open.remove(name);
        self.done.insert(name.to_owned(), node.clone());
        node
    }

    fn top(&mut self, name: &str, schema: &Value) -> Node {
        if name.ends_with(".resource.Quantity") {
            // Not int-or-string: `cpu: 0.5` is a number with a fraction.
            let branch = |ty| Node { ty: Some(ty), ..Node::default() };
            return Node { any_of: vec![branch(Type::String), branch(Type::Number)], ..Node::default() };
        }
        if is_any_json(name) {
            return anything(None);
        }
        let recursive = name.strip_prefix(CRD_PACKAGE).is_some_and(|rest| rest == ".JSONSchemaProps");
        if recursive || name.ends_with(".FieldsV1") {
            return anything(Some(Type::Object));
        }
        if name.ends_with(".RawExtension") {
            // Nobody owns a part of what nobody knows.
            return Node { map_type: MapType::Atomic, ..anything(Some(Type::Object)) };
        }
        let mut node = self.inline(schema);
        // Status is written by controllers and taken as it comes.
        if is_observed(name) {
            node.required.clear();
        }
        node.required.retain(|field| !OPTIONAL.contains(&(name, field.as_str())));
        node
    }

    fn child(&mut self, schema: &Value) -> Arc<Node> {
        let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix(REF_PREFIX)) else {
            return Arc::new(self.inline(schema));
        };
        let node = self.named(name);
        match schema["x-kubernetes-patch-strategy"].as_str() {
            Some(strategy) => {
                Arc::new(Node { patch_strategy: Some(strategy.to_owned()), ..Node::clone(&node) })
            }
            None => node,
        }
    }

    fn inline(&mut self, schema: &Value) -> Node {
        let text = |key: &str| schema[key].as_str().map(str::to_owned);
        let mut node = Node {
            ty: schema["type"].as_str().and_then(type_of),
            format: text("format"),
            default: schema.get("default").cloned(),
            required: strings(&schema["required"]),
            int_or_string: schema["x-kubernetes-int-or-string"] == true,
            patch_merge_key: text("x-kubernetes-patch-merge-key"),
            patch_strategy: text("x-kubernetes-patch-strategy"),
            ..Node::default()
        };
        if node.int_or_string {
            node.format = None;
        }
        node.list_type = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(strings(&schema["x-kubernetes-list-map-keys"])),
            _ => ListType::Atomic,
        };
        if schema["x-kubernetes-map-type"] == "atomic" {
            node.map_type = MapType::Atomic;
        }
        if let Some(properties) = schema["properties"].as_object() {
            node.properties =
                properties.iter().map(|(field, schema)| (field.clone(), self.child(schema))).collect();
        }
        node.additional = schema.get("additionalProperties").filter(|s| s.is_object()).map(|s| self.child(s));
        node.items = schema.get("items").map(|s| self.child(s));
        node
    }
}

fn anything(ty: Option<Type>) -> Node {
    Node { ty, preserve_unknown_fields: true, ..Node::default() }
}

fn is_observed(name: &str) -> bool {
    const SUFFIXES: [&str; 4] = ["Status", "Condition", "NodeSystemInfo", "DaemonEndpoint"];
    const PARTS: [&str; 4] = [".ContainerState", ".AttachedVolume", ".ContainerImage", ".NodeAddress"];
    // The common condition is the exception: kinds that embed it do check it.
    name != "io.k8s.apimachinery.pkg.apis.meta.v1.Condition"
        && (SUFFIXES.iter().any(|s| name.ends_with(s)) || PARTS.iter().any(|p| name.contains(p)))
}

fn type_of(name: &str) -> Option<Type> {
    Some(match name {
        "array" => Type::Array,
        "boolean" => Type::Boolean,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "object" => Type::Object,
        "string" => Type::String,
        _ => return None,
    })
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
