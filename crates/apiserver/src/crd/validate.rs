//! Whether a CRD may be stored: names, versions, schemas, columns, subresources, and what an update may not change.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};

use super::names;
use crate::error::FieldError;
use crate::jsonpath::JsonPath;
use crate::schema::{Node, Schema, Type, check_structural};

/// Kubernetes allows so many selectable fields in a version.
const MAX_SELECTABLE_FIELDS: usize = 8;

/// Everything wrong with a CRD that went through `default`; `old` is `None` on create.
pub(crate) fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &crd["spec"];
    if !spec.is_object() {
        return vec![FieldError::required("spec", "")];
    }
    names::check_object_name(crd, &mut errors);
    names::check(spec, &mut errors);
    match spec["scope"].as_str() {
        None | Some("") => errors.push(FieldError::required("spec.scope", "")),
        Some("Cluster" | "Namespaced") => {}
        Some(_) => {
            errors.push(FieldError::not_supported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"]));
        }
    }
    if spec["preserveUnknownFields"] == json!(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
    conversion(&spec["conversion"], &mut errors);
    versions(spec, &mut errors);
    stored_versions(crd, &mut errors);
    if let Some(old) = old {
        immutable(crd, old, &mut errors);
    }
    errors
}

fn conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    let strategy = &conversion["strategy"];
    match strategy.as_str() {
        None | Some("None") => {}
        Some("Webhook") => {
            let detail = "this server calls no webhooks; use None, with versions that differ only in fields that \
                          may be left out";
            errors.push(FieldError::invalid("spec.conversion.strategy", strategy, detail));
        }
        Some(_) => {
            let allowed = ["None", "Webhook"];
            errors.push(FieldError::not_supported("spec.conversion.strategy", strategy, &allowed));
        }
    }
}

pub(super) fn no_storage_version(spec: &Value) -> FieldError {
    let names: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().map(|v| &v["name"]).collect();
    FieldError::invalid(
        "spec.versions",
        &json!(names),
        "must have exactly one version marked as storage version",
    )
}

fn versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.is_empty() {
        errors.push(FieldError::required("spec.versions", "must have at least one version"));
    }
    let mut seen = HashSet::new();
    let mut schemas: Vec<(&Value, Rc<Option<Schema>>)> = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        names::label(&format!("{path}.name"), &version["name"], errors);
        if !seen.insert(version["name"].as_str().unwrap_or_default()) {
            let detail = "must contain unique version names";
            errors.push(FieldError::invalid("spec.versions", &version["name"], detail));
        }
        for field in ["served", "storage"] {
            if !version[field].is_boolean() {
                errors.push(FieldError::required(format!("{path}.{field}"), "must be true or false"));
            }
        }
        if version["deprecationWarning"].is_string() && version["deprecated"] != json!(true) {
            let detail = "can only be set for deprecated versions";
            let path = format!("{path}.deprecationWarning");
            errors.push(FieldError::invalid(path, &version["deprecationWarning"], detail));
        }
        let openapi = &version["schema"]["openAPIV3Schema"];
        // A schema that an earlier version has too is not compiled, and its errors not told, again.
        let known = schemas.iter().find(|(other, _)| *other == openapi).map(|(_, schema)| Rc::clone(schema));
        let schema = known.unwrap_or_else(|| Rc::new(schema(&path, openapi, errors)));
        schemas.push((openapi, Rc::clone(&schema)));
        columns(&path, &version["additionalPrinterColumns"], errors);
        subresources(&path, &version["subresources"], errors);
        selectable_fields(&path, &version["selectableFields"], (*schema).as_ref(), errors);
    }
    if versions.iter().filter(|v| v["storage"] == json!(true)).count() != 1 {
        errors.push(no_storage_version(spec));
    }
}

fn schema(path: &str, openapi: &Value, errors: &mut Vec<FieldError>) -> Option<Schema> {
    let path = format!("{path}.schema.openAPIV3Schema");
    if openapi.is_null() {
        errors.push(FieldError::required(path, "schemas are required"));
        return None;
    }
    let node = match Node::parse(&path, openapi) {
        Ok(node) => node,
        Err(wrong) => {
            errors.extend(wrong);
            return None;
        }
    };
    let found = check_structural(&path, openapi);
    if !found.is_empty() {
        errors.extend(found);
        return None;
    }
    let schema = Schema::from_node(Arc::new(node));
    let found = schema.check_rules(&path);
    let fine = found.is_empty();
    errors.extend(found);
    fine.then_some(schema)
}

fn columns(path: &str, columns: &Value, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 10] =
        ["int32", "int64", "float", "double", "byte", "date", "date-time", "password", "", "name"];
    for (i, column) in columns.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{i}]");
        for field in ["name", "type", "jsonPath"] {
            if column[field].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(format!("{path}.{field}"), ""));
            }
        }
        let one_of = |field: &str, allowed: &[&str], errors: &mut Vec<FieldError>| {
            if column[field].as_str().is_some_and(|t| !t.is_empty() && !allowed.contains(&t)) {
                let detail = format!("must be one of {}", allowed.join(","));
                errors.push(FieldError::invalid(format!("{path}.{field}"), &column[field], detail));
            }
        };
        one_of("type", &TYPES, errors);
        one_of("format", &FORMATS, errors);
        json_path(&format!("{path}.jsonPath"), &column["jsonPath"], errors);
    }
}

fn json_path(path: &str, value: &Value, errors: &mut Vec<FieldError>) -> Option<JsonPath> {
    let text = value.as_str().filter(|t| !t.is_empty())?;
    match JsonPath::parse(text) {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            errors.push(FieldError::invalid(path, value, format!("invalid JSON path: {error}")));
            None
        }
    }
}

fn subresources(path: &str, subresources: &Value, errors: &mut Vec<FieldError>) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    let path = format!("{path}.subresources.scale");
    let fields: [(&str, bool, &[&str], &str); 3] = [
        ("specReplicasPath", true, &["spec"], "should be a json path under .spec"),
        ("statusReplicasPath", true, &["status"], "should be a json path under .status"),
        (
            "labelSelectorPath",
            false,
            &["spec", "status"],
            "should be a json path under either .spec or .status",
        ),
    ];
    for (field, required, roots, detail) in fields {
        let path = format!("{path}.{field}");
        if scale[field].as_str().is_none_or(str::is_empty) {
            if required {
                errors.push(FieldError::required(path, ""));
            }
            continue;
        }
        let Some(parsed) = json_path(&path, &scale[field], errors) else {
            continue;
        };
        let fits = parsed.fields().is_some_and(|f| f.len() > 1 && roots.contains(&f[0]));
        if !fits {
            errors.push(FieldError::invalid(path, &scale[field], detail));
        }
    }
}

fn selectable_fields(path: &str, fields: &Value, schema: Option<&Schema>, errors: &mut Vec<FieldError>) {
    let fields = fields.as_array().map(Vec::as_slice).unwrap_or_default();
    if fields.len() > MAX_SELECTABLE_FIELDS {
        let detail = format!("must have at most {MAX_SELECTABLE_FIELDS} items");
        let path = format!("{path}.selectableFields");
        errors.push(FieldError::invalid(path, &json!(fields.len()), detail));
    }
    let mut seen = HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        let path = format!("{path}.selectableFields[{i}].jsonPath");
        let value = &field["jsonPath"];
        if value.as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        if !seen.insert(value.as_str()) {
            errors.push(FieldError::duplicate(path, value));
            continue;
        }
        let Some(parsed) = json_path(&path, value, errors) else {
            continue;
        };
        let Some(schema) = schema else { continue };
        let names = parsed.fields();
        let target = names.as_ref().and_then(|names| {
            names.iter().try_fold(schema.root.as_ref(), |node, name| node.properties.get(*name).map(|n| &**n))
        });
        let scalar = |ty: Type| matches!(ty, Type::String | Type::Boolean | Type::Integer);
        if names.is_some_and(|n| n.first() == Some(&"metadata")) {
            errors.push(FieldError::invalid(path, value, "must not point to fields in metadata"));
        } else if !target.is_some_and(|node| node.ty.is_some_and(scalar)) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid(path, value, detail));
        }
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let names: Vec<&Value> =
        crd["spec"]["versions"].as_array().into_iter().flatten().map(|v| &v["name"]).collect();
    for (i, stored) in crd["status"]["storedVersions"].as_array().into_iter().flatten().enumerate() {
        if !names.contains(&stored) {
            let path = format!("status.storedVersions[{i}]");
            errors.push(FieldError::invalid(path, stored, "must appear in spec.versions"));
        }
    }
}

/// Stored objects hang on these, and the object's own name on the last two.
fn immutable(crd: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for (path, field) in [
        ("spec.scope", "/spec/scope"),
        ("spec.names.kind", "/spec/names/kind"),
        ("spec.group", "/spec/group"),
        ("spec.names.plural", "/spec/names/plural"),
    ] {
        let value = crd.pointer(field);
        if value != old.pointer(field) {
            errors.push(FieldError::invalid(path, value.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
}
