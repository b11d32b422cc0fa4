//! A `ContainerNetwork`'s status, computed from what the runtime has and what could be done. Pure: the time is an
//! argument. While no runtime answers, what was last seen stays, and the conditions say that nobody knows better.

use std::sync::Arc;

use causeway_api::{
    ContainerNetworkState, ContainerNetworkStatus, NetworkMode,
    conditions::{self, ConditionType, Reason, Status},
};
use causeway_containers::{ErrorKind, Network};
use causeway_ir::Problem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::validate::Valid;
use crate::{
    containers::runtime::Availability,
    framework::{
        error::Error,
        events::{Note, Severity},
        finding::Finding,
        status::{Shared, transitions},
    },
};

/// The condition types that this controller writes; others are left alone.
const OWN_CONDITIONS: [ConditionType; 3] =
    [ConditionType::Ready, ConditionType::RuntimeAvailable, ConditionType::Deleting];
/// A message names so many containers; the status has them all.
const NAMED: usize = 10;

/// How reconciling a network ended.
#[derive(Clone, Debug)]
pub(crate) enum ReconcileResult {
    /// It is there.
    Running(Network),
    /// It should be there, and someone else has to make it.
    Missing,
    /// It is gone, as it should be.
    Removed,
    /// It should go, and containers keep it.
    InUse(Network),
    /// It belongs to someone else.
    Conflict(String),
    /// The spec makes no sense.
    Invalid(Problem),
    /// No runtime answers.
    RuntimeUnavailable,
    /// The runtime failed.
    Failed(Arc<causeway_containers::Error>),
}

impl ReconcileResult {
    /// Only a failure asks for another try; all else waits for something to happen.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        match self {
            Self::Failed(source) => Err(Error::Runtime { source }),
            _ => Ok(()),
        }
    }
}

/// What a status is computed from.
pub(crate) struct Input<'a> {
    /// The object's generation.
    pub(crate) generation: i64,
    /// Whether a runtime answered.
    pub(crate) availability: &'a Availability,
    /// What it asks for, if its spec makes sense and still counts.
    pub(crate) valid: Option<&'a Valid>,
    /// How reconciling its network ended.
    pub(crate) result: &'a ReconcileResult,
}

impl Shared for ContainerNetworkStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = &OWN_CONDITIONS;

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

/// The status that follows `previous`.
pub(crate) fn next(
    previous: &ContainerNetworkStatus,
    input: &Input<'_>,
    now: &Time,
) -> ContainerNetworkStatus {
    let mut next = match input.result {
        ReconcileResult::Running(network) | ReconcileResult::InUse(network) => seen(network),
        // Nobody looked, or nobody could: what was seen last stays.
        ReconcileResult::RuntimeUnavailable | ReconcileResult::Failed(_) | ReconcileResult::Invalid(_) => {
            previous.clone()
        }
        ReconcileResult::Missing | ReconcileResult::Removed | ReconcileResult::Conflict(_) => {
            ContainerNetworkStatus::default()
        }
    };
    next.state = Some(state(previous, input.result));
    if let Some(valid) = input.valid {
        next.network_name = Some(valid.name.clone());
    }
    next.observed_generation = Some(input.generation);
    next.conditions.clone_from(&previous.conditions);
    let ready = summary(input);
    next.message = (ready.status != Status::True).then(|| ready.message.clone());
    let conditions = &mut next.conditions;
    available(input).set(conditions, ConditionType::RuntimeAvailable, input.generation, now);
    ready.set(conditions, ConditionType::Ready, input.generation, now);
    conditions::remove(&mut next.conditions, ConditionType::Deleting);
    next
}

/// The status of an object whose network does not go yet.
pub(crate) fn deleting(
    previous: &ContainerNetworkStatus,
    input: &Input<'_>,
    now: &Time,
) -> ContainerNetworkStatus {
    let mut next = match input.result {
        ReconcileResult::InUse(network) => ContainerNetworkStatus {
            state: previous.state,
            conditions: previous.conditions.clone(),
            network_name: previous.network_name.clone(),
            ..seen(network)
        },
        _ => previous.clone(),
    };
    let Finding { reason, message, .. } = summary(input);
    next.observed_generation = Some(input.generation);
    next.message = Some(message.clone());
    let conditions = &mut next.conditions;
    available(input).set(conditions, ConditionType::RuntimeAvailable, input.generation, now);
    let deleting = Finding::yes(reason, message.clone());
    deleting.set(conditions, ConditionType::Deleting, input.generation, now);
    Finding::no(reason, message).set(conditions, ConditionType::Ready, input.generation, now);
    next
}

/// What the runtime says of a network.
fn seen(network: &Network) -> ContainerNetworkStatus {
    ContainerNetworkStatus {
        id: Some(network.id.clone()),
        network_name: Some(network.name.clone()),
        driver: Some(network.driver.clone()),
        ipv6: Some(network.ipv6),
        subnets: network.subnets.iter().map(|subnet| subnet.range.clone()).collect(),
        gateways: network
            .subnets
            .iter()
            .filter_map(|subnet| subnet.gateway.map(|gateway| gateway.to_string()))
            .collect(),
        container_ids: network.containers.iter().map(|container| container.id.clone()).collect(),
        ..ContainerNetworkStatus::default()
    }
}

fn state(previous: &ContainerNetworkStatus, result: &ReconcileResult) -> ContainerNetworkState {
    match result {
        ReconcileResult::Running(_) => ContainerNetworkState::Running,
        ReconcileResult::Missing => ContainerNetworkState::NotFound,
        ReconcileResult::Removed => ContainerNetworkState::Removed,
        ReconcileResult::Conflict(_) | ReconcileResult::Invalid(_) => ContainerNetworkState::FailedToStart,
        ReconcileResult::Failed(error) if !error.is_transient() && previous.id.is_none() => {
            ContainerNetworkState::FailedToStart
        }
        ReconcileResult::InUse(_) | ReconcileResult::RuntimeUnavailable | ReconcileResult::Failed(_) => {
            previous.state.unwrap_or_default()
        }
    }
}

fn summary(input: &Input<'_>) -> Finding {
    let valid = input.valid;
    match input.result {
        ReconcileResult::Running(network) if valid.is_some_and(|valid| valid.ipv6) && !network.ipv6 => {
            Finding::no(
                Reason::Conflict,
                format!(
                    "network {} has no IPv6, which spec.ipv6 asks for: make the network anew with IPv6, or leave spec.ipv6 out",
                    network.name
                ),
            )
        }
        ReconcileResult::Running(network) => {
            let kept = match valid.map(|valid| valid.mode) {
                Some(NetworkMode::Session) => "is removed with this object",
                _ => "stays when this object goes",
            };
            Finding::yes(Reason::Ready, format!("network {} is there and {kept}", network.name))
        }
        ReconcileResult::Missing => Finding::no(
            Reason::NotFound,
            format!(
                "network {} does not exist: make it, or use mode persistent to have it made",
                valid.map(|valid| valid.name.as_str()).unwrap_or_default()
            ),
        ),
        ReconcileResult::Removed => {
            Finding::yes(Reason::ReconciliationSucceeded, "no network of this name is there".to_owned())
        }
        ReconcileResult::InUse(network) => Finding::no(Reason::CleanupFailed, in_use(network)),
        ReconcileResult::Conflict(why) => Finding::no(Reason::Conflict, why.clone()),
        ReconcileResult::Invalid(problem) => Finding::no(Reason::InvalidSpec, problem.to_string()),
        ReconcileResult::RuntimeUnavailable => {
            Finding::no(Reason::RuntimeUnavailable, input.availability.to_string())
        }
        ReconcileResult::Failed(error) => {
            let advice = match error.kind() {
                ErrorKind::CouldNotAllocate => "; remove networks that nobody uses to free address ranges",
                _ => "",
            };
            Finding::no(Reason::ReconciliationFailed, format!("{}{advice}", error.report()))
        }
    }
}

fn in_use(network: &Network) -> String {
    let name = &network.name;
    if network.containers.is_empty() {
        // Podman counts those that do not run, too, and does not say which.
        return format!("network {name} waits for containers that do not run but belong to it: remove them");
    }
    let mut names: Vec<_> =
        network.containers.iter().take(NAMED).map(|container| container.name.as_str()).collect();
    let more = network.containers.len().saturating_sub(NAMED);
    let more_text = format!("{more} more");
    if more > 0 {
        names.push(&more_text);
    }
    format!("network {name} waits for its containers to go: {}", names.join(", "))
}

fn available(input: &Input<'_>) -> Finding {
    let (status, reason) = match input.availability {
        Availability::Found(_) => (Status::True, Reason::Ready),
        Availability::Searching => (Status::Unknown, Reason::Progressing),
        Availability::Unavailable { .. } => (Status::False, Reason::RuntimeUnavailable),
    };
    Finding::new(status, reason, input.availability.to_string())
}

/// The Events that a change of status is worth: each condition that moved, the same text only once, and a network that
/// is another one than before.
pub(crate) fn notes(previous: &ContainerNetworkStatus, next: &ContainerNetworkStatus) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    let is_going = conditions::find(&next.conditions, ConditionType::Deleting).is_some();
    if let (Some(old), Some(new), Some(name)) = (&previous.id, &next.id, &next.network_name)
        && old != new
    {
        notes.push(Note {
            severity: Severity::Warning,
            reason: "NetworkReplaced".to_owned(),
            action: "Reconcile",
            text: format!(
                "network {name} was removed by someone else and is there again as another one; containers of the old one have to be attached again"
            ),
        });
    }
    for condition in transitions(&previous.conditions, &next.conditions) {
        let is_true = condition.status == Status::True.as_str();
        let is_good = is_true && condition.type_ != ConditionType::Deleting.as_str();
        let was_known = previous.conditions.iter().any(|old| old.type_ == condition.type_);
        // A runtime that answers is news only after it did not.
        let is_usual = is_good && condition.type_ == ConditionType::RuntimeAvailable.as_str() && !was_known;
        let is_told = notes.iter().any(|note| note.text == condition.message);
        let is_unclear = condition.status == Status::Unknown.as_str();
        // The Deleting condition says already that it is not ready any more.
        let is_echo = is_going && condition.type_ == ConditionType::Ready.as_str();
        if is_usual || is_told || is_unclear || is_echo {
            continue;
        }
        notes.push(Note::moved(condition, is_good));
    }
    notes
}

#[cfg(test)]
mod tests;
