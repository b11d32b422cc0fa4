//! The kinds the server knows without a CRD: their names, defaults, rules and `kubectl get` columns.
//! One file per family of kinds; what several families share has its own file.

mod admission_policies;
mod autoscaling;
mod check;
mod config;
mod crds;
pub(crate) mod definitions;
mod events;
mod json;
mod kind;
mod list_types;
mod metadata;
mod namespaces;
mod nodes;
mod pods;
mod policy;
mod print;
mod quantity;
mod rbac;
mod revisions;
mod selectable;
mod services;
mod storage;
pub(crate) mod syntax;
mod workloads;

pub(crate) use check::selects;
pub(crate) use metadata::validate_metadata;
pub(crate) use selectable::field_value;
pub(crate) use services::{ClusterIpWish, cluster_ip_wanted};
pub(crate) use syntax::path_segment;

use crate::resource::Resource;

/// Every built-in resource, in every served version.
pub(crate) fn resources() -> Vec<Resource> {
    [
        namespaces::kinds(),
        config::kinds(),
        services::kinds(),
        pods::kinds(),
        nodes::kinds(),
        events::kinds(),
        storage::kinds(),
        workloads::kinds(),
        revisions::kinds(),
        rbac::kinds(),
        policy::kinds(),
        autoscaling::kinds(),
        admission_policies::kinds(),
        crds::kinds(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
