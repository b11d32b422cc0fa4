//! One served resource in one version: its names, scope, schema, columns and the behaviour that a built-in kind
//! adds to the generic one.

use std::sync::Arc;

use serde_json::Value;

use crate::error::FieldError;
use crate::schema::Schema;

/// Everything the REST handlers need to know about a kind and version.
#[derive(Clone)]
pub(crate) struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// The group of the collection objects are kept in: another than `group` when two groups serve one collection.
    pub storage_group: String,
    /// The version objects are stored in; reads in another version rewrite `apiVersion` (and more, for kinds
    /// whose `strategy` converts).
    pub storage_version: String,
    pub schema: Arc<Schema>,
    pub subresources: Subresources,
    pub columns: Columns,
    /// Field paths beside `metadata.name` and `metadata.namespace` that a field selector may use, without a
    /// leading dot: `spec.nodeName`.
    pub selectable_fields: Vec<String>,
    pub strategy: Arc<dyn Strategy>,
    pub deprecation_warning: Option<String>,
}

/// Which subresources a resource has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subresources {
    pub status: bool,
    pub scale: Option<Scale>,
    /// Names of further subresources that other modules serve: `log`, `token`, `finalize`.
    pub others: Vec<String>,
}

/// Where a resource keeps the fields of its `scale` subresource, as paths without a leading dot.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// How `kubectl get` shows a resource.
#[derive(Clone)]
pub(crate) enum Columns {
    /// From a CRD: JSONPath columns; `Name` comes first by itself, and `Age` is added if there is none at all.
    Paths(Vec<PathColumn>),
    /// From a built-in kind: column definitions and a function that gives one row's cells.
    Printer(&'static [ColumnDef], fn(&Value, now: jiff::Timestamp) -> Vec<Value>),
}

/// One `additionalPrinterColumns` entry.
#[derive(Debug, Clone)]
pub(crate) struct PathColumn {
    pub name: String,
    pub ty: String,
    pub format: String,
    pub description: String,
    pub priority: i32,
    pub json_path: String,
}

/// One column of a built-in kind's table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnDef {
    pub name: &'static str,
    pub ty: &'static str,
    pub format: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

/// What a kind does beyond its schema. The default is a custom resource's behaviour.
pub(crate) trait Strategy: Send + Sync {
    /// Fills in what a schema default can't say. Runs on every write, after schema defaulting.
    fn default(&self, _object: &mut Value) {}

    /// Checks what a schema can't say. `old` is `None` on create.
    fn validate(&self, _new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        Vec::new()
    }

    /// Keeps or resets fields a writer may not touch (a create drops `status`, an update keeps it: that part is
    /// generic; this is for the rest).
    fn prepare(&self, _new: &mut Value, _old: Option<&Value>) {}

    /// Whether `metadata.generation` follows this change. The default: everything but metadata and status.
    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        let strip = |v: &Value| {
            let mut v = v.clone();
            if let Some(map) = v.as_object_mut() {
                map.remove("metadata");
                map.remove("status");
            }
            v
        };
        strip(new) != strip(old)
    }

    /// Whether objects of this kind carry `metadata.generation` at all.
    fn has_generation(&self) -> bool {
        true
    }

    /// Turns a stored object into this resource's version, in place.
    fn convert_from_storage(&self, _object: &mut Value) {}

    /// Turns an object of this resource's version into the stored one, in place.
    fn convert_to_storage(&self, _object: &mut Value) {}
}

/// A kind with no behaviour of its own.
pub(crate) struct Plain;

impl Strategy for Plain {}

impl Resource {
    /// Whether stored objects have this resource's group and version.
    pub(crate) fn is_stored_form(&self) -> bool {
        self.version == self.storage_version && self.group == self.storage_group
    }

    /// Whether the kind comes from a CRD.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.columns, Columns::Paths(_))
    }

    /// Whether all its objects can be deleted by one request: a slip would end every namespace at once.
    pub(crate) fn can_be_emptied(&self) -> bool {
        !(self.group.is_empty() && self.plural == "namespaces")
    }

    /// Whether a delete answers with what was deleted rather than with a `Status`.
    pub(crate) fn shows_deleted(&self) -> bool {
        let shown = ["persistentvolumeclaims", "pods", "serviceaccounts", "services"];
        self.group.is_empty() && shown.contains(&self.plural.as_str())
    }

    /// `apiVersion` of objects served through this resource.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}
