//! Nodes and Leases.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Node", "nodes")
            .cluster_scoped()
            .short(&["no"])
            .status()
            .selectable(&["spec.unschedulable"])
            .columns(print::NODE, print::node)
            .build(),
        Kind::new("coordination.k8s.io", "v1", "Lease", "leases")
            .columns(print::LEASE, print::lease)
            .build(),
    ]
}
