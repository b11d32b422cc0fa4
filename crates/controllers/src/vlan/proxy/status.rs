//! A `ProxyServer`'s status, computed from what the spec asks for, what the applier could do, and what the pods are and
//! say. Pure: the time is an argument. `Ready` is true when traffic would pass by every replica.

mod conditions;

use causeway_api::{
    BackendStatus, ProxyServer, ProxyServerStatus, ReplicaStatus,
    conditions::{self as api, ConditionType, Reason, Status},
};
use causeway_ir::Problem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

use super::{desired::Desired, generation, observe::Observed};
use crate::framework::{
    apply::{Error, Report},
    events::Note,
    finding::Finding,
    report,
    status::{Shared, transitions},
};

/// The condition types that this controller writes; others are left alone.
const OWN_CONDITIONS: [ConditionType; 5] = [
    ConditionType::Ready,
    ConditionType::ConfigurationValid,
    ConditionType::BackendsResolved,
    ConditionType::NetworkAttached,
    ConditionType::Deleting,
];

/// What a status is computed from.
pub(crate) struct Input<'a> {
    /// The object.
    pub(crate) proxy: &'a ProxyServer,
    /// What is wrong with it.
    pub(crate) problems: &'a [Problem],
    /// Its children, if nothing is wrong with it.
    pub(crate) desired: Option<&'a Desired>,
    /// Children that could not be brought to that.
    pub(crate) failures: Vec<&'a Error>,
    /// Why Services in other namespaces are not used, for lack of a grant.
    pub(crate) refusals: Vec<String>,
    /// Its surroundings.
    pub(crate) observed: &'a Observed,
}

impl Shared for ProxyServerStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = &OWN_CONDITIONS;

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    /// Each proxy reports for itself.
    fn drop_foreign(&mut self) {
        self.replicas.clear();
    }
}

/// The status that follows `previous`.
pub(crate) fn next(previous: &ProxyServerStatus, input: &Input<'_>, now: &Time) -> ProxyServerStatus {
    let generation = generation(input.proxy);
    let backends = backends(input.proxy, &input.observed.reports);
    let mut conditions = previous.conditions.clone();
    let mut set = |kind, finding: Finding| finding.set(&mut conditions, kind, generation, now);
    set(ConditionType::ConfigurationValid, conditions::configuration_valid(input));
    set(ConditionType::BackendsResolved, conditions::backends_resolved(input, &backends));
    set(ConditionType::NetworkAttached, conditions::network_attached(input));
    set(ConditionType::Ready, conditions::ready(input, &backends));

    let name = input.proxy.name_any();
    let own = |made: bool| made.then(|| name.clone());
    let (config_map_name, deployment_name, service_name) = match input.desired {
        // What runs is left as it is, and so is what is said of it.
        None => {
            let previous = previous.clone();
            (previous.config_map_name, previous.deployment_name, previous.service_name)
        }
        Some(desired) => (
            desired.config_map.as_ref().map(ResourceExt::name_any),
            own(!input.observed.deployments.is_empty()),
            own(input.observed.service_ip.is_some()),
        ),
    };
    ProxyServerStatus {
        conditions,
        observed_generation: Some(generation),
        config_map_name,
        deployment_name,
        service_name,
        service_ip: input.observed.service_ip.clone(),
        backend_count: i32::try_from(input.proxy.spec.backends.len()).ok(),
        backends,
        replicas: Vec::new(),
    }
}

/// The status of an object that waits for its clean-up.
pub(crate) fn deleting(
    previous: &ProxyServerStatus,
    report: &Report,
    generation: i64,
    now: &Time,
) -> ProxyServerStatus {
    let mut next = previous.clone();
    let failures: Vec<_> = report.failures().map(|error| report::chain(error)).collect();
    let (reason, message) = if failures.is_empty() {
        (Reason::DeletionInProgress, "its Roles in other namespaces are being removed".to_owned())
    } else {
        (Reason::CleanupFailed, failures.join("; "))
    };
    let message = report::cut(&message, report::NOTE_LIMIT);
    api::set(
        &mut next.conditions,
        ConditionType::Deleting,
        Status::True,
        reason,
        message.clone(),
        generation,
        now,
    );
    api::set(&mut next.conditions, ConditionType::Ready, Status::False, reason, message, generation, now);
    next
}

/// Each backend of the spec that a proxy has reported on: the fewest endpoints that one of them sees, and the
/// connections of all.
fn backends(proxy: &ProxyServer, reports: &[ReplicaStatus]) -> Vec<BackendStatus> {
    let mut merged = Vec::new();
    for backend in &proxy.spec.backends {
        let seen: Vec<_> = reports
            .iter()
            .filter_map(|report| report.backends.iter().find(|seen| seen.name == backend.name))
            .collect();
        let Some(ready_endpoints) = seen.iter().map(|seen| seen.ready_endpoints).min() else {
            continue;
        };
        let connections: Vec<_> = seen.iter().filter_map(|seen| seen.connections).collect();
        merged.push(BackendStatus {
            name: backend.name.clone(),
            ready_endpoints,
            connections: (!connections.is_empty()).then(|| connections.iter().sum()),
            message: seen.iter().find_map(|seen| seen.message.clone()),
        });
    }
    merged
}

/// The Events that a change of status is worth.
pub(crate) fn notes(previous: &ProxyServerStatus, next: &ProxyServerStatus) -> Vec<Note> {
    // Waiting is not news.
    let calm = [Reason::Progressing, Reason::PodsStarting, Reason::NotRequested, Reason::DeletionInProgress];
    let was_ready = api::find(&previous.conditions, ConditionType::Ready)
        .is_some_and(|ready| ready.status == Status::True.as_str());
    let mut notes: Vec<Note> = Vec::new();
    for condition in transitions(&previous.conditions, &next.conditions) {
        let is_good =
            condition.status == Status::True.as_str() && condition.type_ != ConditionType::Deleting.as_str();
        let is_ready = condition.type_ == ConditionType::Ready.as_str();
        let waits = calm.iter().any(|reason| reason.as_str() == condition.reason);
        // A proxy that no longer carries traffic is news, whatever it waits for.
        let fell = is_ready && was_ready && !is_good;
        if waits && !fell {
            continue;
        }
        // The summary's bad news is told by the condition that it comes from.
        if notes.iter().any(|note| note.text == condition.message) {
            continue;
        }
        let mut note = Note::moved(condition, is_good);
        if fell && waits {
            Reason::NotReady.as_str().clone_into(&mut note.reason);
        }
        notes.push(note);
    }
    notes
}

#[cfg(test)]
mod tests;
