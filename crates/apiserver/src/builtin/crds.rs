//! CustomResourceDefinitions, as a kind of their own.

use serde_json::Value;

use super::kind::Kind;
use super::print;
use crate::crd;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        )
        .cluster_scoped()
        .short(&["crd", "crds"])
        .categories(&["api-extensions"])
        .status()
        .columns(print::CREATED, print::created)
        .strategy(Definition)
        .build(),
    ]
}

struct Definition;

impl Strategy for Definition {
    fn default(&self, definition: &mut Value) {
        crd::default(definition);
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        crd::validate(new, old)
    }
}
