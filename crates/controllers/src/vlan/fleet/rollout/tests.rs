use causeway_api::ReplicaStatus;
use serde_json::json;

use super::*;
use crate::vlan::{
    fleet::PodState,
    proxy::{
        Settings,
        desired::{deployment_name, desired},
        fixture,
        observe::Observed,
    },
};

/// What three replicas should be after another image was asked for.
fn wanted() -> Vec<Deployment> {
    let fields = json!({
        "replicas": 3, "managerImage": "causeway.dev/causeway:next",
        "networkConfig": { "serverIP": "10.0.0.4", "additionalServerIPs": ["10.0.0.5", "10.0.0.6"] },
    });
    desired(&fixture::proxy(&fields), &Settings::default(), None, None, &Observed::default()).deployments
}

/// Replicas that all serve, those in `changed` with the wanted template already.
fn serving(count: usize, changed: &[usize]) -> Observed {
    let wanted = wanted();
    let name = |index: usize| format!("pod-{index}");
    Observed {
        deployments: (0..count)
            .map(|index| DeploymentState {
                name: deployment_name("lab", index),
                index,
                is_available: true,
                is_rolling: false,
                template_hash: changed
                    .contains(&index)
                    .then(|| wanted.get(index).and_then(template_hash).cloned())
                    .flatten(),
                address: Some(format!("10.0.0.{}", index + 4)),
                ..DeploymentState::default()
            })
            .collect(),
        pods: (0..count).map(|index| PodState { name: name(index), index, ..PodState::default() }).collect(),
        reports: (0..count)
            .map(|index| ReplicaStatus { name: name(index), serving: true, ..ReplicaStatus::default() })
            .collect(),
        service_ip: None,
        ..Observed::default()
    }
}

fn held(observed: &Observed) -> Vec<String> {
    rollout(&wanted(), observed).held
}

#[test]
fn one_replica_after_another_is_changed_each_once_the_last_has_shown_that_it_serves() {
    assert_eq!(held(&serving(3, &[])), ["lab-2", "lab-3"]);
    let mut observed = serving(3, &[0]);
    assert_eq!(held(&observed), ["lab-3"]);

    observed.deployments[0].is_rolling = true;
    assert_eq!(held(&observed), ["lab-2", "lab-3"], "its pod is being replaced");
    observed.deployments[0].is_rolling = false;
    for silence in [
        |report: &mut ReplicaStatus| report.name = "an-older-pod".into(),
        |report: &mut ReplicaStatus| report.serving = false,
        |report: &mut ReplicaStatus| report.trouble = Some("the port is taken".into()),
        |report: &mut ReplicaStatus| report.attached = Some(false),
    ] {
        let mut observed = observed.clone();
        silence(&mut observed.reports[0]);
        assert_eq!(held(&observed), ["lab-2", "lab-3"], "its pod has not shown that it serves");
    }
    observed.pods[0].is_leaving = true;
    assert_eq!(held(&observed), ["lab-2", "lab-3"], "the pod that served is leaving");
    assert_eq!(held(&serving(3, &[0, 1])), Vec::<String>::new());
    assert_eq!(held(&serving(3, &[0, 1, 2])), Vec::<String>::new());
}

#[test]
fn what_carries_nothing_is_changed_at_once_and_what_is_not_there_is_made() {
    assert_eq!(rollout(&wanted(), &Observed::default()), Rollout::default());
    let mut observed = serving(3, &[]);
    observed.deployments[1].is_available = false;
    assert_eq!(held(&observed), ["lab", "lab-3"], "the broken one first, the others when it serves");
    for state in &mut observed.deployments {
        state.is_available = false;
    }
    assert_eq!(held(&observed), Vec::<String>::new());
    let mut observed = serving(3, &[]);
    observed.reports[1].attached = Some(false);
    assert_eq!(held(&observed), ["lab", "lab-3"], "the one that the others wait for");
    assert_eq!(held(&serving(2, &[])), ["lab", "lab-2"], "a third is made before one of the two goes");
}

#[test]
fn a_refused_spec_is_no_reason_to_stop_nor_to_hurry() {
    let mut observed = serving(3, &[]);
    for report in &mut observed.reports {
        report.serving = false;
        report.refused = Some("Envoy refuses it".into());
    }
    assert_eq!(held(&observed), ["lab-2", "lab-3"], "each carries an earlier one");
}

#[test]
fn a_replica_that_is_no_longer_wanted_stays_until_the_others_are_through() {
    let kept = |observed: &Observed| rollout(&wanted(), observed).kept;
    assert_eq!(kept(&serving(4, &[])), ["lab-4"]);
    assert_eq!(kept(&serving(4, &[0, 1, 2])), Vec::<String>::new());
    let mut idle = serving(4, &[]);
    idle.deployments[3].is_available = false;
    assert_eq!(kept(&idle), Vec::<String>::new(), "it carries nothing");
}
