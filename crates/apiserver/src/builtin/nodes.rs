//! Nodes and Leases.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Errors, join};
use super::json::{child, fill, is_set, items, text};
use super::kind::Kind;
use super::print;
use super::syntax;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Node", "nodes")
            .cluster_scoped()
            .short(&["no"])
            .status()
            .selectable(&["spec.unschedulable"])
            .columns(print::NODE, print::node)
            .strategy(Node)
            .build(),
        Kind::new("coordination.k8s.io", "v1", "Lease", "leases")
            .columns(print::LEASE, print::lease)
            .strategy(Lease)
            .build(),
    ]
}

struct Node;

impl Strategy for Node {
    fn default(&self, node: &mut Value) {
        let Some(status) = child(node, "status") else {
            return;
        };
        if is_set(status, "capacity") {
            let capacity = status["capacity"].clone();
            fill(status, "allocatable", capacity);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let mut seen = BTreeSet::new();
        for (i, taint) in items(&new["spec"], "taints").iter().enumerate() {
            let path = format!("spec.taints[{i}]");
            let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
            errors.complain(&join(&path, "key"), key, syntax::qualified_name(key));
            errors.complain(&join(&path, "value"), value, syntax::label_value(value));
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.one_of(taint, &path, "effect", &effects, true);
            if !seen.insert((key, effect)) {
                errors.duplicate(path, taint.clone());
            }
        }
        let provider = |node: &Value| text(&node["spec"], "providerID").to_owned();
        if let Some(old) = old.map(provider).filter(|p| !p.is_empty() && *p != provider(new)) {
            let detail =
                format!("node updates may not change providerID except from \"\" to valid (was {old:?})");
            errors.forbidden("spec.providerID", detail);
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

struct Lease;

impl Strategy for Lease {
    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let spec = &new["spec"];
        errors.positive(spec, "spec", "leaseDurationSeconds");
        errors.not_negative(spec, "spec", "leaseTransitions");
        if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
            errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined");
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}
