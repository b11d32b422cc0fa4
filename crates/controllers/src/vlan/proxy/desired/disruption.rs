//! What keeps replicas from going together: they are on different nodes where there are several, and a drain takes one
//! after the other.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::TopologySpreadConstraint,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use super::Subject;

/// One pod at a time; none for a proxy of one pod, which would be for nothing.
pub(super) fn budget(subject: &Subject<'_>) -> Option<PodDisruptionBudget> {
    (subject.spec.replicas > 1).then(|| PodDisruptionBudget {
        metadata: subject.metadata(subject.name.clone()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selects(subject.selector())),
            // A pod that does not serve is not missed.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}

/// On nodes of their own as far as there are some. The same for one replica, so that a second one changes no pod.
pub(super) fn spread(subject: &Subject<'_>) -> Vec<TopologySpreadConstraint> {
    vec![TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".to_owned(),
        // A node that is drained is still counted as one to be used.
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(selects(subject.selector())),
        ..TopologySpreadConstraint::default()
    }]
}

fn selects(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}
