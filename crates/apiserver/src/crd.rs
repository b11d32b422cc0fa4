//! CustomResourceDefinitions: what one must look like, what it means for the server (its resources), and its status.
//! Works on the JSON of the object; the caller stores it and keeps the catalog.

mod names;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::jsonpath::JsonPath;
use crate::object;
use crate::resource::{Columns, PathColumn, Plain, Resource, Scale, Strategy, Subresources};
use crate::schema::{Node, Schema};
use crate::store::GroupResource;

pub(crate) use names::name_conflict;
pub(crate) use status::accepted_status;
pub(crate) use validate::validate;

/// Where CRDs themselves are kept.
pub(crate) fn collection() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Whether the status says that the CRD's resources are served.
pub(crate) fn is_accepted(crd: &Value) -> bool {
    status::condition(&crd["status"], "Established").is_some_and(|c| c["status"] == "True")
}

/// What the kind `CustomResourceDefinition` does beyond its schema.
pub(crate) struct Definition;

impl Strategy for Definition {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate(new, old)
    }
}

/// Fills in what a writer may leave out: the singular and list names, and the conversion strategy.
pub(crate) fn default(crd: &mut Value) {
    if !crd["spec"].is_object() {
        return;
    }
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if !kind.is_empty() {
        let names = object::map_at(&mut crd["spec"], "names");
        let blank = |v: Option<&Value>| v.is_none_or(|v| v.is_null() || v == "");
        if blank(names.get("singular")) {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if blank(names.get("listKind")) {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    let conversion = object::map_at(&mut crd["spec"], "conversion");
    conversion.entry("strategy").or_insert_with(|| json!("None"));
}

/// One resource for each served version. Expects a CRD that passed `validate`; its patterns and rules are compiled
/// when they are first needed.
pub(crate) fn resources(crd: &Value) -> Result<Vec<Resource>, Vec<FieldError>> {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage_version = versions
        .iter()
        .find(|v| v["storage"] == json!(true))
        .map(|v| string(&v["name"]))
        .ok_or_else(|| vec![validate::no_storage_version(spec)])?;
    let mut resources: Vec<Resource> = Vec::new();
    let mut schemas: Vec<(&Value, Arc<Schema>)> = Vec::new();
    let mut errors = Vec::new();
    for (i, version) in versions.iter().enumerate().filter(|(_, v)| v["served"] == json!(true)) {
        let openapi = &version["schema"]["openAPIV3Schema"];
        // Versions often differ in nothing but their name; they share one schema then.
        let known = schemas.iter().find(|(other, _)| *other == openapi).map(|(_, schema)| schema.clone());
        let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
        let schema = known.map_or_else(
            || Node::parse(&path, openapi).map(|node| Arc::new(Schema::from_node(Arc::new(node)))),
            Ok,
        );
        match schema {
            Ok(schema) => {
                schemas.push((openapi, schema.clone()));
                resources.push(resource(spec, version, &storage_version, schema));
            }
            Err(wrong) => errors.extend(wrong),
        }
    }
    if errors.is_empty() { Ok(resources) } else { Err(errors) }
}

fn resource(spec: &Value, version: &Value, storage_version: &str, schema: Arc<Schema>) -> Resource {
    let names = &spec["names"];
    let group = string(&spec["group"]);
    let kind = string(&names["kind"]);
    let name = string(&version["name"]);
    Resource {
        deprecation_warning: (version["deprecated"] == json!(true)).then(|| {
            let text = version["deprecationWarning"].as_str().filter(|t| !t.is_empty());
            text.map_or_else(|| format!("{group}/{name} {kind} is deprecated"), str::to_owned)
        }),
        list_kind: string(&names["listKind"]),
        plural: string(&names["plural"]),
        singular: string(&names["singular"]),
        short_names: strings(&names["shortNames"]),
        categories: strings(&names["categories"]),
        namespaced: spec["scope"] == json!("Namespaced"),
        storage_group: group.clone(),
        storage_version: storage_version.to_owned(),
        schema,
        subresources: subresources(&version["subresources"]),
        columns: Columns::Paths(columns(&version["additionalPrinterColumns"])),
        selectable_fields: selectable_fields(&version["selectableFields"]),
        strategy: Arc::new(Plain),
        version: name,
        group,
        kind,
    }
}

fn subresources(json: &Value) -> Subresources {
    let path = |value: &Value| value.as_str().map(|p| p.trim_start_matches('.').to_owned());
    let scale = &json["scale"];
    Subresources {
        status: json["status"].is_object(),
        scale: path(&scale["specReplicasPath"]).map(|spec_replicas| Scale {
            spec_replicas,
            status_replicas: path(&scale["statusReplicasPath"]).unwrap_or_default(),
            label_selector: path(&scale["labelSelectorPath"]).filter(|p| !p.is_empty()),
        }),
        others: Vec::new(),
    }
}

fn columns(json: &Value) -> Vec<PathColumn> {
    let column = |c: &Value| PathColumn {
        name: string(&c["name"]),
        ty: string(&c["type"]),
        format: string(&c["format"]),
        description: string(&c["description"]),
        priority: c["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or_default(),
        json_path: string(&c["jsonPath"]),
    };
    json.as_array().into_iter().flatten().map(column).collect()
}

fn selectable_fields(json: &Value) -> Vec<String> {
    let path = |field: &Value| {
        let path = JsonPath::parse(field["jsonPath"].as_str()?).ok()?;
        Some(path.fields()?.join("."))
    };
    json.as_array().into_iter().flatten().filter_map(path).collect()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
