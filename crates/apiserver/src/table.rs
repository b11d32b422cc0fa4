//! The forms in which a client may want objects: as rows of a table with the columns of `kubectl get`, or as
//! metadata alone. Pure functions of objects and of the time that ages are counted to.

mod age;
mod cells;

use serde_json::{Map, Value, json};

use crate::accept;
use crate::resource::{Columns, Resource};

pub(crate) use age::age;

use cells::PathCells;

/// The version of `meta.k8s.io` that the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableVersion {
    V1,
    V1Beta1,
}

/// What the client wants to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Objects and lists as they are.
    Whole,
    Table(TableVersion),
    /// `PartialObjectMetadata`: of one object, or of each object of a watch.
    Metadata(TableVersion),
    /// `PartialObjectMetadataList`.
    MetadataList(TableVersion),
}

/// How much of the object goes with each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`; `None` for an unknown word.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

impl TableVersion {
    fn parse(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// `apiVersion` of the documents.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Media types beside JSON that a client may name. Who takes protobuf alone gets JSON.
const OTHER_FORMS: [&str; 3] = ["application/yaml", "application/vnd.kubernetes.protobuf", "text/*"];

/// The first form in the client's order of preference that can be given. `None` when it takes nothing that is
/// offered: a conversion that does not exist, with no plain type to fall back to.
pub(crate) fn form(accept: &str) -> Option<Form> {
    let mut refused = false;
    for clause in accept::parse(accept) {
        let Some((kind, group, version)) = clause.conversion() else {
            if clause.takes_json() || OTHER_FORMS.contains(&clause.media_type) {
                return Some(Form::Whole);
            }
            refused = true;
            continue;
        };
        let version = TableVersion::parse(version).filter(|_| group == "meta.k8s.io" && clause.takes_json());
        match (kind, version) {
            ("Table", Some(version)) => return Some(Form::Table(version)),
            ("PartialObjectMetadata", Some(version)) => return Some(Form::Metadata(version)),
            ("PartialObjectMetadataList", Some(version)) => return Some(Form::MetadataList(version)),
            _ => refused = true,
        }
    }
    (!refused).then_some(Form::Whole)
}

/// A `Table` of some objects. `list_meta` is the list's metadata, or one object's. `headers` is false for the
/// second and later events of a watch.
pub(crate) fn render(
    version: TableVersion,
    resource: &Resource,
    items: &[Value],
    list_meta: &Value,
    include: IncludeObject,
    now: jiff::Timestamp,
    headers: bool,
) -> Value {
    let paths = match &resource.columns {
        Columns::Paths(columns) => Some(PathCells::new(columns)),
        Columns::Printer(..) => None,
    };
    let rows: Vec<Value> = items
        .iter()
        .map(|item| {
            let cells = match (&resource.columns, &paths) {
                (Columns::Printer(_, print), _) => print(item, now),
                (_, Some(paths)) => paths.row(item, now),
                (Columns::Paths(_), None) => Vec::new(),
            };
            let object = match include {
                IncludeObject::None => Value::Null,
                IncludeObject::Metadata => metadata(version, item),
                IncludeObject::Object => item.clone(),
            };
            json!({ "cells": cells, "object": object })
        })
        .collect();
    let definitions = if headers { definitions(resource, paths.as_ref()) } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": table_meta(list_meta),
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// `PartialObjectMetadata` of one object.
pub(crate) fn metadata(version: TableVersion, object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": object["metadata"],
    })
}

/// `PartialObjectMetadataList` of some objects.
pub(crate) fn metadata_list(version: TableVersion, items: &[Value], list_meta: &Value) -> Value {
    let items: Vec<Value> = items.iter().map(|item| metadata(version, item)).collect();
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": version.api_version(),
        "metadata": table_meta(list_meta), "items": items,
    })
}

/// Only what belongs to a list, so that one object's metadata can be given too.
fn table_meta(meta: &Value) -> Value {
    let kept = ["resourceVersion", "continue", "remainingItemCount"];
    let kept = kept.iter().filter_map(|key| Some(((*key).to_owned(), meta.get(key)?.clone())));
    Value::Object(kept.collect::<Map<_, _>>())
}

fn definitions(resource: &Resource, paths: Option<&PathCells>) -> Value {
    match (&resource.columns, paths) {
        (Columns::Printer(columns, _), _) => {
            columns.iter().map(|c| definition(c.name, c.ty, c.format, c.description, c.priority)).collect()
        }
        (Columns::Paths(_), Some(paths)) => paths.definitions().into(),
        (Columns::Paths(_), None) => Value::Null,
    }
}

fn definition(name: &str, ty: &str, format: &str, description: &str, priority: i32) -> Value {
    json!({ "name": name, "type": ty, "format": format, "description": description, "priority": priority })
}

#[cfg(test)]
mod tests;
