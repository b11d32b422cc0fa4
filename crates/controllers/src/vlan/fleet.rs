//! The pods of one object, whatever its kind: what is known of them and of their Deployments, and in which order they are
//! changed. One away at a time, never for an image that can't be had, and not those of every object together.

pub(crate) mod image_check;
pub(crate) mod pace;
pub(crate) mod patience;
pub(crate) mod replica;
pub(crate) mod reports;
pub(crate) mod rollout;
pub(crate) mod step;
pub(crate) mod stuck;
pub(crate) mod summary;
pub(crate) mod update;

use std::sync::Arc;
use std::time::Duration;

use causeway_api::names;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentStatus},
        core::v1::{ContainerStatus, Pod},
    },
    jiff::Timestamp,
};
use kube::{ResourceExt, api::DynamicObject};

use self::image_check::{CheckState, images};
use crate::framework::{
    children::{Children, typed},
    kinds::POD,
};

/// When an address is asked for again that a pod on its way out still has, and a kind that nobody has defined.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// When what others have or give is looked at again, should a change of it have shown in no object, or too early.
pub(crate) const LOOK_AT_OTHERS: Duration = Duration::from_secs(30);

/// What is known of the pods of one object.
pub(crate) trait Fleet {
    /// The Deployments that are there.
    fn deployments(&self) -> &[DeploymentState];
    /// The pods that are there.
    fn pods(&self) -> &[PodState];
    /// The pods that find out whether images can be had.
    fn checks(&self) -> &[CheckState];
    /// Whether a pod has shown that it serves: if the newest spec is refused, then an earlier one.
    fn has_served(&self, pod: &str) -> bool;
    /// Whether the account of its pods is there.
    fn has_account(&self) -> bool;
}

/// How far a Deployment has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeploymentState {
    /// Its name.
    pub(crate) name: String,
    /// Its number, counted from 0.
    pub(crate) index: usize,
    /// It has a pod that is ready: also one that is about to be replaced.
    pub(crate) is_available: bool,
    /// Its latest change is not out yet.
    pub(crate) is_rolling: bool,
    /// Tells its pod template from others.
    pub(crate) template_hash: Option<String>,
    /// Tells what of a spec its pod was made of.
    pub(crate) asked_hash: Option<String>,
    /// The address that its pod is given.
    pub(crate) address: Option<String>,
    /// The images of its containers.
    pub(crate) images: Vec<String>,
    /// The account that its pod was made with, by uid.
    pub(crate) account: Option<String>,
    /// Why the cluster does not take its pod.
    pub(crate) refused: Option<String>,
}

/// One pod of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodState {
    /// Its name.
    pub(crate) name: String,
    /// Its Deployment's number, counted from 0.
    pub(crate) index: usize,
    /// It is being deleted.
    pub(crate) is_leaving: bool,
    /// Where it runs.
    pub(crate) node: Option<String>,
    /// Since when it has its node and has not begun.
    pub(crate) starts_since: Option<Timestamp>,
    /// Why one of its containers does not run.
    pub(crate) trouble: Option<String>,
}

/// The pods of an object with this label `app`.
pub(crate) fn pods_of(
    children: &Children,
    (namespace, kind, name): (&str, &str, &str),
    app: &str,
) -> Vec<Pod> {
    let pods = children.labelled(POD, namespace, (names::LABEL_OWNER_NAME, name)).into_iter();
    let has = |pod: &Arc<DynamicObject>, label: &str, value: &str| {
        pod.labels().get(label).is_some_and(|has| has == value)
    };
    let own = pods.filter(|pod| has(pod, names::LABEL_APP, app) && has(pod, names::LABEL_OWNER_KIND, kind));
    own.filter_map(|pod| typed::<Pod>(&pod)).collect()
}

/// Reads a Deployment.
pub(crate) fn deployment_state(deployment: &Deployment, index: usize) -> DeploymentState {
    let status = deployment.status.clone().unwrap_or_default();
    let count = |count: Option<i32>| count.unwrap_or_default();
    let is_out = status.observed_generation >= deployment.metadata.generation
        && count(status.updated_replicas) >= 1
        && count(status.replicas) == count(status.updated_replicas)
        && count(status.available_replicas) == count(status.updated_replicas);
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let metadata = template.and_then(|template| template.metadata.as_ref());
    DeploymentState {
        name: deployment.name_any(),
        index,
        is_available: count(status.available_replicas) >= 1,
        is_rolling: !is_out,
        template_hash: deployment.annotations().get(names::ANNOTATION_TEMPLATE_HASH).cloned(),
        asked_hash: deployment.annotations().get(names::ANNOTATION_ASKED_HASH).cloned(),
        address: server_ip(deployment),
        images: template.map(images).unwrap_or_default(),
        account: metadata.and_then(|made| made.annotations.as_ref()?.get(names::ANNOTATION_ACCOUNT).cloned()),
        refused: refusal(&status),
    }
}

/// Why no pod of it is made: a quota, a policy, a webhook.
fn refusal(status: &DeploymentStatus) -> Option<String> {
    let failure = status.conditions.iter().flatten().find(|condition| condition.type_ == "ReplicaFailure")?;
    (failure.status == "True").then(|| failure.message.clone().unwrap_or_default())
}

/// The address that a Deployment gives its pod.
pub(crate) fn server_ip(deployment: &Deployment) -> Option<String> {
    let containers = &deployment.spec.as_ref()?.template.spec.as_ref()?.containers;
    containers.iter().find_map(|container| {
        let mut args = container.args.iter().flatten();
        args.by_ref().find(|arg| *arg == "--server-ip")?;
        args.next().cloned()
    })
}

/// Reads a pod.
pub(crate) fn pod_state(pod: &Pod) -> PodState {
    let replica = pod.labels().get(names::LABEL_REPLICA).and_then(|text| text.parse::<usize>().ok());
    let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    PodState {
        name: pod.name_any(),
        index: replica.unwrap_or(1).saturating_sub(1),
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        starts_since: starts_since(pod),
        trouble: containers.find_map(container_trouble).or_else(|| unschedulable(pod)),
    }
}

fn starts_since(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Pending"))?;
    pod.spec.as_ref()?.node_name.as_ref()?;
    status.start_time.as_ref().or(pod.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

/// Reads a pod that tries an image.
pub(crate) fn check_state(pod: &Pod) -> CheckState {
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.as_deref();
    let mut containers = status.container_statuses.iter().flatten();
    CheckState {
        name: pod.name_any(),
        has_passed: phase == Some("Succeeded"),
        is_lost: phase == Some("Failed"),
        trouble: containers.find_map(container_trouble).or_else(|| unschedulable(pod)),
    }
}

/// Why a container does not run, unless it just starts.
fn container_trouble(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    let (reason, message) = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => (waiting.reason.clone(), waiting.message.clone()),
        (None, Some(ended)) if ended.exit_code != 0 => {
            (ended.reason.clone(), ended.message.clone().or(Some(format!("exit code {}", ended.exit_code))))
        }
        _ => return None,
    };
    let reason = reason.filter(|reason| reason != "ContainerCreating" && reason != "PodInitializing")?;
    let detail = message.map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("container {} is in {reason}{detail}", status.name))
}

fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    let reason = scheduled.reason.as_deref().filter(|_| scheduled.status == "False")?;
    Some(format!("{reason}: {}", scheduled.message.as_deref().unwrap_or_default()))
}
