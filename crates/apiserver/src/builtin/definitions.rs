//! The OpenAPI component schemas of the built-in kinds, made at run time from k8s-openapi's types and the merge
//! facts of `list_types`, and the same as `Node`s for validation and patches. Both are built on first use;
//! the documents keep their descriptions, the nodes do not.

mod nodes;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps,
    authentication::v1 as authentication, authorization::v1 as authorization,
    autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling, coordination::v1 as coordination,
    core::v1 as core, discovery::v1 as discovery, events::v1 as events, networking::v1 as networking,
    rbac::v1 as rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::list_types::{self, List};
use crate::schema::Node;

/// Where a component schema lives in an OpenAPI v3 document.
pub(crate) const REF_PREFIX: &str = "#/components/schemas/";

/// The definition of `metadata`.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

const CRD_PACKAGE: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// A kind that has a definition of its own.
struct Top {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    name: String,
}

/// Every built-in component schema by name, such as `io.k8s.api.core.v1.PodSpec`.
pub(crate) fn definitions() -> &'static BTreeMap<String, Value> {
    static ALL: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: BTreeMap<String, Value> = generate().into_iter().collect();
        all.values_mut().for_each(wrap_refs);
        all
    })
}

/// The schema of one named type. Types share their parts: there is one `PodSpec`, whoever asks.
///
/// # Panics
/// When no built-in type has this name.
pub(crate) fn node(name: &str) -> Arc<Node> {
    static ALL: OnceLock<BTreeMap<String, Arc<Node>>> = OnceLock::new();
    let all = ALL.get_or_init(|| nodes::convert(&generate()));
    all.get(name).expect("callers name types that k8s-openapi defines").clone()
}

/// The name of the definition of a built-in kind.
pub(crate) fn name_of(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    static TOPS: OnceLock<Vec<Top>> = OnceLock::new();
    let tops = TOPS.get_or_init(|| {
        let mut tops = Tops::default();
        visit_kinds(&mut tops);
        tops.0
    });
    let same = |top: &&Top| top.group == group && top.version == version && top.kind == kind;
    tops.iter().find(same).map(|top| top.name.as_str())
}

/// Something that is shown every kind.
trait Visitor {
    fn kind<T: JsonSchema + k8s_openapi::Resource>(&mut self);
}

#[derive(Default)]
struct Tops(Vec<Top>);

impl Visitor for Tops {
    fn kind<T: JsonSchema + k8s_openapi::Resource>(&mut self) {
        let name = T::schema_name().into_owned();
        self.0.push(Top { group: T::GROUP, version: T::VERSION, kind: T::KIND, name });
    }
}

impl Visitor for SchemaGenerator {
    fn kind<T: JsonSchema + k8s_openapi::Resource>(&mut self) {
        self.subschema_for::<T>();
    }
}

fn visit_kinds(v: &mut impl Visitor) {
    v.kind::<core::ConfigMap>();
    v.kind::<core::Endpoints>();
    v.kind::<core::Event>();
    v.kind::<core::Namespace>();
    v.kind::<core::Node>();
    v.kind::<core::PersistentVolumeClaim>();
    v.kind::<core::Pod>();
    v.kind::<core::Secret>();
    v.kind::<core::Service>();
    v.kind::<core::ServiceAccount>();
    v.kind::<apps::ControllerRevision>();
    v.kind::<apps::DaemonSet>();
    v.kind::<apps::Deployment>();
    v.kind::<apps::ReplicaSet>();
    v.kind::<apps::StatefulSet>();
    v.kind::<autoscaling::HorizontalPodAutoscaler>();
    v.kind::<autoscaling_v1::HorizontalPodAutoscaler>();
    v.kind::<autoscaling_v1::Scale>();
    v.kind::<admissionregistration::ValidatingAdmissionPolicy>();
    v.kind::<admissionregistration::ValidatingAdmissionPolicyBinding>();
    v.kind::<apiextensions::CustomResourceDefinition>();
    v.kind::<authentication::SelfSubjectReview>();
    v.kind::<authentication::TokenRequest>();
    v.kind::<authentication::TokenReview>();
    v.kind::<authorization::LocalSubjectAccessReview>();
    v.kind::<authorization::SelfSubjectAccessReview>();
    v.kind::<authorization::SelfSubjectRulesReview>();
    v.kind::<authorization::SubjectAccessReview>();
    v.kind::<coordination::Lease>();
    v.kind::<discovery::EndpointSlice>();
    v.kind::<events::Event>();
    v.kind::<networking::NetworkPolicy>();
    v.kind::<rbac::ClusterRole>();
    v.kind::<rbac::ClusterRoleBinding>();
    v.kind::<rbac::Role>();
    v.kind::<rbac::RoleBinding>();
}

/// The schemas with their facts, references still plain `$ref`s with neighbours.
fn generate() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    visit_kinds(&mut generator);
    generator.subschema_for::<meta::DeleteOptions>();
    generator.subschema_for::<meta::ListMeta>();
    generator.subschema_for::<meta::Patch>();
    generator.subschema_for::<meta::Status>();
    let mut all = generator.take_definitions(false);
    for (name, schema) in &mut all {
        annotate(name, schema);
    }
    let mut tops = Tops::default();
    visit_kinds(&mut tops);
    for top in &tops.0 {
        if let Some(schema) = all.get_mut(&top.name) {
            mark_kind(schema, top);
        }
    }
    all
}

fn mark_kind(schema: &mut Value, top: &Top) {
    schema["x-kubernetes-group-version-kind"] =
        json!([{ "group": top.group, "kind": top.kind, "version": top.version }]);
    // k8s-openapi's structs always have metadata; on the wire it may be left out.
    if let Some(schema) = schema.as_object_mut() {
        make_optional(schema, "metadata");
    }
}

/// Adds the merge facts, and says in OpenAPI what a Rust type cannot.
fn annotate(name: &str, schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if name.ends_with(".resource.Quantity") {
        object.insert("oneOf".into(), json!([{ "type": "string" }, { "type": "number" }]));
        return;
    }
    if name.ends_with(".intstr.IntOrString") {
        object.insert("format".into(), "int-or-string".into());
        object.insert("oneOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
        return;
    }
    if is_any_json(name) {
        object.retain(|key, _| key == "description");
        return;
    }
    let short = name.strip_prefix("io.k8s.api.core.v1.");
    if short.is_some_and(|short| NAME_OPTIONAL.contains(&short)) {
        make_optional(object, "name");
    }
    if list_types::is_atomic_type(name) {
        object.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    for (field, property) in properties.into_iter().flatten() {
        if let Some(property) = property.as_object_mut() {
            annotate_field(name, field, property);
        }
    }
}

/// References whose `name` may be left out, though k8s-openapi's structs always have it.
const NAME_OPTIONAL: [&str; 7] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// Takes one field off the list of those that must be there.
fn make_optional(schema: &mut Map<String, Value>, field: &str) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != field);
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

/// Types that hold whatever JSON they are given.
fn is_any_json(name: &str) -> bool {
    let rest = name.strip_prefix(CRD_PACKAGE);
    rest.is_some_and(|rest| rest == ".JSON" || rest.starts_with(".JSONSchemaPropsOr"))
}

fn annotate_field(ty: &str, field: &str, property: &mut Map<String, Value>) {
    let is_list = property.get("type").is_some_and(|t| t == "array");
    let mut list = if is_list { List::Atomic } else { List::Object };
    if let Some(merge) = list_types::merge(ty, field) {
        list = merge.list;
        if !merge.key.is_empty() {
            property.insert("x-kubernetes-patch-merge-key".into(), merge.key.into());
        }
        if !merge.strategy.is_empty() {
            property.insert("x-kubernetes-patch-strategy".into(), merge.strategy.into());
        }
    }
    let list_type = match list {
        List::Object => None,
        List::Atomic => Some("atomic"),
        List::Set => Some("set"),
        List::Map(keys) => {
            property.insert("x-kubernetes-list-map-keys".into(), keys.into());
            Some("map")
        }
    };
    if let Some(list_type) = list_type {
        property.insert("x-kubernetes-list-type".into(), list_type.into());
    }
    if list_types::is_atomic_field(ty, field) {
        property.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    if let Some(default) = list_types::default(ty, field) {
        property.insert("default".into(), default.into());
    }
}

/// OpenAPI 3.0 ignores what stands beside a `$ref`, so a described reference goes into an `allOf`.
fn wrap_refs(schema: &mut Value) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object_mut() else {
            continue;
        };
        if property.len() > 1
            && let Some(reference @ Value::String(_)) = property.remove("$ref")
        {
            property.insert("allOf".into(), json!([{ "$ref": reference }]));
        }
    }
}

#[cfg(test)]
mod tests;
