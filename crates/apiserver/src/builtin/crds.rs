//! CustomResourceDefinitions, as a kind of their own.

use super::kind::Kind;
use super::print;
use crate::crd::Definition;
use crate::resource::Resource;

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
            .cluster_scoped()
            .short(&["crd", "crds"])
            .categories(&["api-extensions"])
            .status()
            .columns(print::CREATED, print::created)
            .strategy(Definition)
            .build(),
    ]
}
