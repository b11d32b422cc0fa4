//! A `ProxyServer`'s status, computed from what the spec asks for, what the applier could do, and what the pods are and
//! say. Pure: the time is an argument. `Ready` is true when traffic would pass by every replica; what a spec asks for and
//! the pods are about to take is no reason to take it back.

mod conditions;

use std::collections::HashMap;

use causeway_api::{
    BackendStatus, ProxyServer, ProxyServerStatus, ReplicaStatus,
    conditions::{self as api, ConditionType, Reason, Status},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

use super::{
    desired::{Desired, deployment_name},
    generation,
    observe::Observed,
    places::{Place, places},
};
use crate::framework::{
    apply::{Error, Report},
    events::Note,
    finding::Finding,
    report,
    status::Shared,
};
use crate::vlan::fleet::{
    replica::Replica,
    summary::{self, Pass, Summary, Words},
};

/// The condition types that this controller writes; others are left alone.
const OWN_CONDITIONS: [ConditionType; 6] = [
    ConditionType::Ready,
    ConditionType::ConfigurationValid,
    ConditionType::BackendsResolved,
    ConditionType::NetworkAttached,
    ConditionType::UpToDate,
    ConditionType::Deleting,
];

const WORDS: Words =
    Words { one: "proxy", idle: "does not carry traffic", images: "spec.managerImage or spec.proxyImage" };

/// Backends that are told of by name.
const MOST_TOLD: usize = 32;

/// What a status is computed from.
pub(crate) struct Input<'a> {
    /// The object.
    pub(crate) proxy: &'a ProxyServer,
    /// What this pass has found out.
    pub(crate) pass: Pass<'a>,
    /// Its children, if nothing is wrong with it.
    pub(crate) desired: Option<&'a Desired>,
    /// Children that could not be brought to that.
    pub(crate) failures: Vec<&'a Error>,
    /// Why Services in other namespaces are not used, for lack of a grant.
    pub(crate) refusals: Vec<String>,
    /// Its surroundings.
    pub(crate) observed: &'a Observed,
}

impl Input<'_> {
    /// What is known of the pods.
    fn summary(&self) -> Summary<'_, ReplicaStatus> {
        let (name, observed) = (self.proxy.name_any(), self.observed);
        let replicas = places(&self.proxy.spec, observed).into_iter().map(|Place { index, address }| {
            let deployment = (index, deployment_name(&name, index));
            Replica::new(deployment, address.map(str::to_owned), &observed.pods, &observed.reports)
        });
        Summary::new(WORDS, generation(self.proxy), self.pass, observed, replicas)
    }
}

impl Shared for ProxyServerStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = &OWN_CONDITIONS;

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    /// Each proxy reports for itself.
    fn drop_foreign(&mut self) {
        self.replicas.clear();
        self.supply = None;
    }
}

/// The status that follows `previous`.
pub(crate) fn next(previous: &ProxyServerStatus, input: &Input<'_>, now: &Time) -> ProxyServerStatus {
    let generation = generation(input.proxy);
    let summary = input.summary();
    let reports: Vec<_> = summary.replicas.iter().filter_map(|replica| replica.report).collect();
    let seen = Seen::by(input.proxy, &reports);
    let mut conditions = previous.conditions.clone();
    let mut set = |kind, finding: Finding| finding.set(&mut conditions, kind, generation, now);
    set(ConditionType::ConfigurationValid, summary.configuration_valid());
    set(ConditionType::BackendsResolved, conditions::backends_resolved(input, &seen));
    set(ConditionType::NetworkAttached, conditions::network_attached(input, &summary));
    set(ConditionType::UpToDate, summary.up_to_date());
    set(ConditionType::Ready, conditions::ready(input, &summary, &seen));

    let name = input.proxy.name_any();
    let own = |made: bool| made.then(|| name.clone());
    let (config_map_name, engine, ports) = match input.desired {
        // What runs is left as it is, and so is what is said of it.
        None => (previous.config_map_name.clone(), previous.engine, previous.ports.clone()),
        Some(desired) => (
            desired.config_map.as_ref().map(ResourceExt::name_any),
            Some(desired.engine),
            Some(desired.ports()),
        ),
    };
    ProxyServerStatus {
        conditions,
        observed_generation: Some(generation),
        config_map_name,
        deployment_name: input.observed.deployments.first().map(|first| first.name.clone()),
        service_name: own(input.observed.service_ip.is_some()),
        service_ip: input.observed.service_ip.clone(),
        engine,
        ports,
        accepted_generation: input.pass.accepted,
        backend_count: i32::try_from(input.proxy.spec.backends.len()).ok(),
        ready_backends: seen.ready.and_then(|ready| i32::try_from(ready).ok()),
        backends: seen.told,
        supply: None,
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

/// Whether all that is missing is that pods take the newest spec, which they do in a moment: they serve the one before,
/// and nothing is in their way. Nobody is told of that.
pub(crate) fn is_settling(previous: &ProxyServerStatus, input: &Input<'_>) -> bool {
    let pass = &input.pass;
    let is_fine = pass.problems.is_empty() && input.failures.is_empty() && pass.withheld.is_empty();
    summary::is_ready(&previous.conditions) && is_fine && input.summary().are_behind()
}

/// Backends as the proxies together see them.
pub(crate) struct Seen {
    /// How many every proxy has a ready endpoint of; none before one has reported.
    pub(crate) ready: Option<usize>,
    /// Those that something is to be said of, in the order of the spec, those that are not ready first.
    pub(crate) told: Vec<BackendStatus>,
    /// Routes that every proxy carries, and how many of those have a ready endpoint.
    pub(crate) routes: (usize, usize),
}

impl Seen {
    /// The fewest endpoints that a proxy sees count. Proxies tell of some only; the rest is a number.
    fn by(proxy: &ProxyServer, reports: &[&ReplicaStatus]) -> Self {
        let mut merged: HashMap<&str, BackendStatus> = HashMap::new();
        for told in reports.iter().flat_map(|report| &report.backends) {
            let known = merged.entry(&told.name).or_insert_with(|| told.clone());
            if told.ready_endpoints < known.ready_endpoints {
                known.clone_from(told);
            }
        }
        let ordered = proxy.spec.backends.iter().filter_map(|backend| merged.remove(backend.name.as_str()));
        let (mut told, rest): (Vec<_>, Vec<_>) = ordered.partition(|backend| backend.ready_endpoints == 0);
        let all = proxy.spec.backends.len();
        let fewest = reports.iter().map(|report| usize::try_from(report.ready_backends).unwrap_or(0)).min();
        let ready = fewest.map(|fewest| fewest.min(all.saturating_sub(told.len())));
        told.extend(rest);
        told.truncate(MOST_TOLD);
        let fewest = |count: fn(&ReplicaStatus) -> Option<i32>| {
            let counts =
                reports.iter().map(|report| usize::try_from(count(report).unwrap_or(0)).unwrap_or(0));
            counts.min().unwrap_or(0)
        };
        let routes = (fewest(|report| report.routes), fewest(|report| report.ready_routes));
        Self { ready, told, routes }
    }
}

/// The Events that a change of status is worth.
pub(crate) fn notes(previous: &ProxyServerStatus, next: &ProxyServerStatus) -> Vec<Note> {
    summary::notes(&previous.conditions, &next.conditions)
}

#[cfg(test)]
mod tests;
