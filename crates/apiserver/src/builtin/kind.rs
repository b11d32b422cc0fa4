//! Describes one built-in kind in a few words and makes its `Resource`.

use std::sync::Arc;

use serde_json::Value;

use super::definitions;
use crate::resource::{ColumnDef, Columns, Plain, Resource, Scale, Strategy, Subresources};
use crate::schema::Schema;

/// A built-in kind under description; namespaced unless said otherwise.
pub(super) struct Kind(Resource);

impl Kind {
    pub(super) fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self(Resource {
            group: group.to_owned(),
            storage_group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            storage_version: version.to_owned(),
            schema: schema(group, version, kind),
            subresources: Subresources::default(),
            columns: Columns::Paths(Vec::new()),
            selectable_fields: Vec::new(),
            strategy: Arc::new(Plain),
            deprecation_warning: None,
        })
    }

    pub(super) fn cluster_scoped(mut self) -> Self {
        self.0.namespaced = false;
        self
    }

    pub(super) fn short(mut self, names: &[&str]) -> Self {
        self.0.short_names = owned(names);
        self
    }

    /// Part of `kubectl get all`.
    pub(super) fn in_all(mut self) -> Self {
        self.0.categories.push("all".to_owned());
        self
    }

    pub(super) fn categories(mut self, names: &[&str]) -> Self {
        self.0.categories.extend(owned(names));
        self
    }

    pub(super) fn status(mut self) -> Self {
        self.0.subresources.status = true;
        self
    }

    pub(super) fn scale(mut self) -> Self {
        self.0.subresources.scale = Some(Scale {
            spec_replicas: "spec.replicas".to_owned(),
            status_replicas: "status.replicas".to_owned(),
            label_selector: Some("spec.selector".to_owned()),
        });
        self
    }

    /// Subresources that other modules serve.
    pub(super) fn others(mut self, names: &[&str]) -> Self {
        self.0.subresources.others = owned(names);
        self
    }

    pub(super) fn selectable(mut self, fields: &[&str]) -> Self {
        self.0.selectable_fields = owned(fields);
        self
    }

    pub(super) fn columns(
        mut self,
        columns: &'static [ColumnDef],
        row: fn(&Value, jiff::Timestamp) -> Vec<Value>,
    ) -> Self {
        self.0.columns = Columns::Printer(columns, row);
        self
    }

    pub(super) fn strategy(mut self, strategy: impl Strategy + 'static) -> Self {
        self.0.strategy = Arc::new(strategy);
        self
    }

    /// Kept in another group's collection, in that group's version.
    pub(super) fn stored_in(mut self, group: &str, version: &str) -> Self {
        group.clone_into(&mut self.0.storage_group);
        version.clone_into(&mut self.0.storage_version);
        self
    }

    /// What every request is warned of.
    pub(super) fn deprecated(mut self, warning: &str) -> Self {
        self.0.deprecation_warning = Some(warning.to_owned());
        self
    }

    pub(super) fn build(self) -> Resource {
        self.0
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

/// Types, pruning and merge keys; the rules are the strategy's.
fn schema(group: &str, version: &str, kind: &str) -> Arc<Schema> {
    let name = definitions::name_of(group, version, kind).expect("every built-in kind has a definition");
    Arc::new(Schema::from_node(definitions::node(name)))
}
