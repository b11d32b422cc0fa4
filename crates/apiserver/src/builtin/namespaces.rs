//! Namespaces.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Namespace", "namespaces")
            .cluster_scoped()
            .short(&["ns"])
            .status()
            .others(&["finalize"])
            .selectable(&["status.phase"])
            .columns(print::NAMESPACE, print::namespace)
            .build(),
    ]
}
