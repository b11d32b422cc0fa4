//! The kinds the server knows without a CRD: their names, defaults, rules and `kubectl get` columns.
//! One file per family of kinds; what several families share has its own file.

mod autoscaling;
mod config;
mod crds;
pub mod definitions;
mod events;
mod field;
mod kind;
mod list_types;
mod namespaces;
mod nodes;
mod pods;
mod policy;
mod print;
mod rbac;
mod services;
mod storage;
mod workloads;

use crate::resource::Resource;

/// Every built-in resource, in every served version.
pub fn resources() -> Vec<Resource> {
    [
        namespaces::kinds(),
        config::kinds(),
        services::kinds(),
        pods::kinds(),
        nodes::kinds(),
        events::kinds(),
        storage::kinds(),
        workloads::kinds(),
        rbac::kinds(),
        policy::kinds(),
        autoscaling::kinds(),
        crds::kinds(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
