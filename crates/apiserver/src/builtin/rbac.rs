//! Roles, ClusterRoles and their bindings.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    let kind = |kind: &str, plural: &str| Kind::new("rbac.authorization.k8s.io", "v1", kind, plural);
    vec![
        kind("Role", "roles")
            .columns(print::CREATED, print::created)
            .build(),
        kind("ClusterRole", "clusterroles")
            .cluster_scoped()
            .columns(print::CREATED, print::created)
            .build(),
        kind("RoleBinding", "rolebindings")
            .columns(print::BINDING, print::binding)
            .build(),
        kind("ClusterRoleBinding", "clusterrolebindings")
            .cluster_scoped()
            .columns(print::BINDING, print::binding)
            .build(),
    ]
}
