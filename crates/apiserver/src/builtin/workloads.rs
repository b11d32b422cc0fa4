//! Deployments, ReplicaSets, StatefulSets and DaemonSets.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    let kind = |kind: &str, plural: &str, short: &str| {
        Kind::new("apps", "v1", kind, plural)
            .short(&[short])
            .in_all()
            .status()
    };
    vec![
        kind("Deployment", "deployments", "deploy")
            .scale()
            .columns(print::DEPLOYMENT, print::deployment)
            .build(),
        kind("ReplicaSet", "replicasets", "rs")
            .scale()
            .selectable(&["status.replicas"])
            .columns(print::REPLICA_SET, print::replica_set)
            .build(),
        kind("StatefulSet", "statefulsets", "sts")
            .scale()
            .columns(print::STATEFUL_SET, print::stateful_set)
            .build(),
        kind("DaemonSet", "daemonsets", "ds")
            .columns(print::DAEMON_SET, print::daemon_set)
            .build(),
    ]
}
