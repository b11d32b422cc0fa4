//! A pod's status from the state of its containers: phase, conditions, container statuses. Pure.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::tracked::{Ended, Role, Waiting};

/// The condition that says why a pod cannot run on this node.
pub(super) const RUNNABLE: &str = "causeway.dev/Runnable";

/// The conditions that the node writes; all others are kept as they are.
pub(super) const OWN_CONDITIONS: [&str; 6] =
    ["PodReadyToStartContainers", "PodScheduled", "Initialized", "ContainersReady", "Ready", RUNNABLE];

/// What is known of one container.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub container: &'a Container,
    pub role: Role,
    /// Start of the newest attempt, and how it ended.
    pub run: Option<(Timestamp, Option<Ended>)>,
    pub last: Option<Ended>,
    pub waiting: Option<Waiting>,
    pub ready: bool,
    pub started: bool,
    pub restarts: i32,
    pub id: String,
}

impl View<'_> {
    fn exit_code(&self) -> Option<i32> {
        self.run.as_ref()?.1.as_ref().map(|ended| ended.exit.code)
    }

    fn is_running(&self) -> bool {
        matches!(self.run, Some((_, None)))
    }

    /// An init container that is done, or a sidecar that is up.
    fn is_initialized(&self) -> bool {
        match self.role {
            Role::Sidecar => self.started || self.exit_code().is_some(),
            Role::Init => self.exit_code() == Some(0),
            Role::Main => true,
        }
    }
}

/// What the status is made from besides the containers.
pub(super) struct Inputs<'a> {
    pub pod: &'a Pod,
    /// The node's address.
    pub address: IpAddr,
    pub pod_address: IpAddr,
    pub start_time: Timestamp,
    /// Why the pod cannot run here: reason and message.
    pub not_runnable: Option<(&'a str, &'a str)>,
    /// All processes have ended and none will be started again.
    pub terminated: bool,
    pub now: Timestamp,
}

/// Builds the status.
pub(super) fn build(inputs: &Inputs<'_>, views: &[View<'_>]) -> PodStatus {
    let before = inputs.pod.status.clone().unwrap_or_default();
    let initialized = views.iter().filter(|view| view.role != Role::Main).all(View::is_initialized);
    let phase = phase(inputs, views, initialized);
    let ended = matches!(phase, "Succeeded" | "Failed");
    let statuses = |main: bool| -> Option<Vec<ContainerStatus>> {
        let list: Vec<_> = views
            .iter()
            .filter(|view| (view.role == Role::Main) == main)
            .map(|view| container_status(view, initialized))
            .collect();
        Some(list).filter(|list| !list.is_empty())
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions(inputs, views, phase, initialized, &before)),
        container_statuses: statuses(true),
        init_container_statuses: statuses(false),
        host_ip: Some(inputs.address.to_string()),
        host_ips: Some(vec![HostIP { ip: inputs.address.to_string() }]),
        pod_ip: Some(inputs.pod_address.to_string()),
        pod_ips: Some(vec![PodIP { ip: inputs.pod_address.to_string() }]),
        start_time: Some(before.start_time.clone().unwrap_or(Time(inputs.start_time))),
        qos_class: Some(before.qos_class.clone().unwrap_or_else(|| qos_class(inputs.pod).to_owned())),
        observed_generation: inputs.pod.metadata.generation,
        reason: before.reason.clone().filter(|_| ended),
        message: before.message.clone().filter(|_| ended),
        nominated_node_name: None,
        ..before
    }
}

fn phase(inputs: &Inputs<'_>, views: &[View<'_>], initialized: bool) -> &'static str {
    let before = inputs.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match before {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        _ => {}
    }
    let policy = restart_policy(inputs.pod);
    let mains: Vec<&View<'_>> = views.iter().filter(|view| view.role == Role::Main).collect();
    let failed_init =
        views.iter().any(|view| view.role == Role::Init && view.exit_code().is_some_and(|code| code != 0));
    if failed_init && policy == "Never" {
        return "Failed";
    }
    let outcome = |views: &[&View<'_>]| {
        if views.iter().all(|view| view.exit_code() == Some(0)) { "Succeeded" } else { "Failed" }
    };
    if inputs.terminated {
        return outcome(&mains);
    }
    if !initialized && mains.iter().all(|view| view.run.is_none()) {
        return "Pending";
    }
    if mains.iter().any(|view| view.run.is_none()) {
        return if mains.iter().any(|view| view.is_running()) { "Running" } else { "Pending" };
    }
    let over =
        |view: &&&View<'_>| matches!((policy, view.exit_code()), ("Never", Some(_)) | ("OnFailure", Some(0)));
    if mains.iter().filter(over).count() == mains.len() && !mains.is_empty() {
        return outcome(&mains);
    }
    "Running"
}

/// The pod's restart policy.
pub(super) fn restart_policy(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
}

fn container_status(view: &View<'_>, initialized: bool) -> ContainerStatus {
    let terminated = |ended: &Ended| ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(ended.id.clone()),
            exit_code: ended.exit.code,
            signal: ended.exit.signal,
            reason: Some(ended.exit.reason.clone()),
            message: ended.exit.message.clone(),
            started_at: Some(Time(seconds(ended.started_at))),
            finished_at: Some(Time(seconds(ended.exit.finished_at))),
        }),
        ..ContainerState::default()
    };
    let waiting = |waiting: &Waiting| ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(waiting.reason.clone()),
            message: Some(waiting.message.clone()).filter(|message| !message.is_empty()),
        }),
        ..ContainerState::default()
    };
    let (state, last) = match (&view.run, &view.waiting) {
        (Some((started_at, None)), _) => {
            let running = ContainerStateRunning { started_at: Some(Time(seconds(*started_at))) };
            (ContainerState { running: Some(running), ..ContainerState::default() }, view.last.as_ref())
        }
        (Some((_, Some(ended))), Some(reason)) => (waiting(reason), Some(ended)),
        (Some((_, Some(ended))), None) => (terminated(ended), view.last.as_ref()),
        (None, Some(reason)) => (waiting(reason), view.last.as_ref()),
        (None, None) => {
            let reason =
                if view.role == Role::Main && !initialized { "PodInitializing" } else { "ContainerCreating" };
            (waiting(&Waiting { reason: reason.to_owned(), message: String::new() }), view.last.as_ref())
        }
    };
    let image = view.container.image.clone().unwrap_or_default();
    let done = view.role == Role::Init && view.exit_code() == Some(0);
    ContainerStatus {
        name: view.container.name.clone(),
        image: image.clone(),
        image_id: if view.run.is_some() { image } else { String::new() },
        container_id: view.run.as_ref().map(|_| view.id.clone()),
        ready: view.ready || done,
        started: Some(view.started),
        restart_count: view.restarts,
        state: Some(state),
        last_state: last.map(terminated),
        ..ContainerStatus::default()
    }
}

/// Kubernetes' times have no fractions; a status with them would differ from what the API returns.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn conditions(
    inputs: &Inputs<'_>,
    views: &[View<'_>],
    phase: &str,
    initialized: bool,
    before: &PodStatus,
) -> Vec<PodCondition> {
    let ended = matches!(phase, "Succeeded" | "Failed");
    let completed = phase == "Succeeded";
    let names = |list: Vec<&View<'_>>| {
        list.iter().map(|view| view.container.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let unready: Vec<&View<'_>> =
        views.iter().filter(|view| view.role != Role::Init && !view.ready).collect();
    let all_ready = unready.is_empty() && initialized && !ended;
    let incomplete: Vec<&View<'_>> =
        views.iter().filter(|view| view.role != Role::Main && !view.is_initialized()).collect();

    let mut list = vec![("PodReadyToStartContainers", Ok(())), ("PodScheduled", Ok(()))];
    let init_state = if initialized || completed {
        Ok(())
    } else {
        Err((
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{}]", names(incomplete)),
        ))
    };
    list.push(("Initialized", init_state));
    let not_ready = || {
        if completed {
            ("PodCompleted", String::new())
        } else if phase == "Failed" {
            ("PodFailed", String::new())
        } else {
            ("ContainersNotReady", format!("containers with unready status: [{}]", names(unready.clone())))
        }
    };
    let containers_ready = if all_ready { Ok(()) } else { Err(not_ready()) };
    list.push(("ContainersReady", containers_ready.clone()));
    let gates = inputs.pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    let known = before.conditions.as_deref().unwrap_or_default();
    let closed = gates.iter().find(|gate| {
        !known.iter().any(|condition| condition.type_ == gate.condition_type && condition.status == "True")
    });
    let ready = match (containers_ready, closed) {
        (Ok(()), Some(gate)) => Err((
            "ReadinessGatesNotReady",
            format!(
                "corresponding condition of pod readiness gate {:?} is not \"True\".",
                gate.condition_type
            ),
        )),
        (state, _) => state,
    };
    list.push(("Ready", ready));
    if let Some((reason, message)) = inputs.not_runnable {
        list.push((RUNNABLE, Err((reason, message.to_owned()))));
    }
    let mut conditions: Vec<PodCondition> = list
        .into_iter()
        .map(|(type_, state)| {
            let (status, reason, message) = match state {
                Ok(()) => ("True", None, None),
                Err((reason, message)) => {
                    ("False", Some(reason.to_owned()), Some(message).filter(|message| !message.is_empty()))
                }
            };
            let since = known
                .iter()
                .find(|condition| condition.type_ == type_ && condition.status == status)
                .and_then(|condition| condition.last_transition_time.clone());
            PodCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason,
                message,
                last_transition_time: Some(since.unwrap_or(Time(seconds(inputs.now)))),
                ..PodCondition::default()
            }
        })
        .collect();
    // Conditions of others, such as readiness gates, are theirs.
    let others = known.iter().filter(|known| !OWN_CONDITIONS.contains(&known.type_.as_str())).cloned();
    conditions.extend(others);
    conditions
}

/// The quality-of-service class by the containers' requests and limits.
pub(super) fn qos_class(pod: &Pod) -> &'static str {
    let Some(spec) = &pod.spec else {
        return "BestEffort";
    };
    let containers: Vec<&Container> =
        spec.containers.iter().chain(spec.init_containers.iter().flatten()).collect();
    let mut any = false;
    let mut guaranteed = true;
    for container in containers {
        let resources = container.resources.clone().unwrap_or_default();
        let (limits, requests) =
            (resources.limits.unwrap_or_default(), resources.requests.unwrap_or_default());
        for name in ["cpu", "memory"] {
            any |= limits.contains_key(name) || requests.contains_key(name);
            let limit = limits.get(name);
            guaranteed &= limit.is_some() && requests.get(name).is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests;
