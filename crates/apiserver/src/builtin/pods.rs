//! Pods.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Pod", "pods")
            .short(&["po"])
            .in_all()
            .status()
            .others(&["log"])
            .selectable(&[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ])
            .columns(print::POD, print::pod)
            .build(),
    ]
}
