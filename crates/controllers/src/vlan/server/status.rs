//! A server's status, computed from what the spec asks for, what the applier could do, and what the pods are and say.
//! Pure: the time is an argument. `Ready` is true when every replica answers and is reached on its network, and a client that
//! comes now would be served.

use causeway_api::{
    ServerReplica, ServerStatus as _,
    conditions::{self as api, ConditionType, Reason, Status},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

use super::{Outline, Server, State, Told, observe::Observed};
use crate::{
    framework::{apply::Error, events::Note, finding::Finding},
    vlan::{
        fleet::{
            replica::Replica,
            summary::{self, Pass, Summary, Words},
        },
        proxy::desired::deployment_name,
    },
};

/// The condition types that this controller writes; others are left alone.
pub(super) const OWN_CONDITIONS: [ConditionType; 5] = [
    ConditionType::Ready,
    ConditionType::ConfigurationValid,
    ConditionType::NetworkAttached,
    ConditionType::UpToDate,
    ConditionType::ClientsKnown,
];

const WORDS: Words = Words { one: "server", idle: "does not answer", images: "spec.image" };

/// What a status is computed from.
pub(crate) struct Input<'a, K> {
    /// The object.
    pub(crate) object: &'a K,
    /// What this pass has found out.
    pub(crate) pass: Pass<'a>,
    /// What its children are made of: of an earlier spec while the newest has problems.
    pub(crate) outline: Option<&'a Outline>,
    /// Children that could not be brought to that.
    pub(crate) failures: Vec<&'a Error>,
    /// What to say of an attachment that does not exist.
    pub(crate) missing_attachment: Option<String>,
    /// What the operator tells the pods.
    pub(crate) told: &'a Told,
    /// Its surroundings.
    pub(crate) observed: &'a Observed,
}

/// The part of a status that is the same for every kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) config_map_name: Option<String>,
    pub(crate) deployment_name: Option<String>,
    pub(crate) service_name: Option<String>,
    pub(crate) service_ip: Option<String>,
    pub(crate) accepted_generation: Option<i64>,
}

/// The status that follows `previous`.
pub(crate) fn next<K: Server>(previous: &K::Status, input: &Input<'_, K>, now: &Time) -> K::Status {
    let generation = input.generation();
    let mut conditions = previous.conditions().to_vec();
    let mut set = |kind, finding: Finding| finding.set(&mut conditions, kind, generation, now);
    let summary = input.summary();
    set(ConditionType::ConfigurationValid, summary.configuration_valid());
    set(ConditionType::NetworkAttached, input.network_attached(&summary));
    set(ConditionType::UpToDate, summary.up_to_date());
    set(ConditionType::Ready, input.ready(&summary));
    match &input.told.clients {
        Some(finding) => set(ConditionType::ClientsKnown, finding.clone()),
        None => drop(api::remove(&mut conditions, ConditionType::ClientsKnown)),
    }
    let name = input.object.name_any();
    let observed = input.observed;
    let common = Common {
        conditions,
        observed_generation: Some(generation),
        config_map_name: input.outline.map(|_| causeway_api::names::server_config_map(&name, K::ROLE)),
        deployment_name: observed.deployments.first().map(|first| first.name.clone()),
        service_name: observed.service_ip.as_ref().map(|_| name.clone()),
        service_ip: observed.service_ip.clone(),
        accepted_generation: input.pass.accepted,
    };
    K::status_of(common, &reports(&summary))
}

/// Whether all that is missing is that pods take the newest spec, which they do in a moment.
pub(crate) fn is_settling<K: Server>(previous: &K::Status, input: &Input<'_, K>) -> bool {
    let is_fine = input.pass.problems.is_empty()
        && input.failures.is_empty()
        && input.pass.withheld.is_empty()
        && input.told.refusal.is_none()
        && input.missing_attachment.is_none();
    summary::is_ready(previous.conditions()) && is_fine && input.summary().are_behind()
}

impl<K: Server> Input<'_, K> {
    fn generation(&self) -> i64 {
        self.object.meta().generation.unwrap_or_default()
    }

    /// What is known of the pods.
    fn summary(&self) -> Summary<'_, ServerReplica> {
        let addresses = self.outline.map_or(&[][..], |outline| &outline.addresses);
        let (name, observed) = (self.object.name_any(), self.observed);
        let replicas = addresses.iter().enumerate().map(|(index, (address, _))| {
            let deployment = (index, deployment_name(&name, index));
            Replica::new(deployment, Some(address.to_string()), &observed.pods, &observed.reports)
        });
        Summary::new(WORDS, self.generation(), self.pass, observed, replicas)
    }

    /// `NetworkAttached`: every server has its address on the isolated network.
    fn network_attached(&self, summary: &Summary<'_, ServerReplica>) -> Finding {
        let absent = || self.missing_attachment.clone();
        let absent = || Some(Finding::no(Reason::NetworkAttachmentNotFound, absent()?));
        let remedy = match self.object.attachment() {
            Some(_) => "look at the pod's Events and at the NetworkAttachmentDefinition",
            None => "name a NetworkAttachmentDefinition in spec.networkConfig.networkAttachmentName",
        };
        let wrong = summary.withheld().or_else(absent).or_else(|| summary.unattached(remedy));
        if let Some(wrong) = wrong.or_else(|| summary.unreached()) {
            return wrong;
        }
        if summary.replicas.is_empty() {
            return Finding::unknown("there is no server yet");
        }
        let attached =
            || Finding::yes(Reason::Attached, "every server has its address on the isolated network");
        summary.silent().unwrap_or_else(attached)
    }

    /// `Ready`: clients are answered.
    fn ready(&self, summary: &Summary<'_, ServerReplica>) -> Finding {
        let failed = || summary::failed(self.failures.iter().copied());
        let wrong = summary.invalid().or_else(failed).or_else(|| summary.refused());
        if let Some(wrong) = wrong.or_else(|| summary.withheld()).or_else(|| self.told.refusal.clone()) {
            return wrong;
        }
        if let Some(waits) = summary.waits_for() {
            return match &self.missing_attachment {
                Some(missing) => Finding::no(Reason::NetworkAttachmentNotFound, missing.clone()),
                None => waits,
            };
        }
        let attached = self.network_attached(summary);
        if attached.status == Status::False && attached.reason != Reason::NetworkAttachmentNotFound {
            return attached;
        }
        if let Some(clients) = self.told.clients.as_ref().filter(|clients| clients.status == Status::False) {
            return clients.clone();
        }
        if let Some(turned_away) = self.object.turns_away(&reports(summary)) {
            return turned_away;
        }
        let count = summary.replicas.len();
        let servers = format!("{count} {} answering", if count == 1 { "server" } else { "servers" });
        let each: Vec<_> = std::iter::once(servers).chain(summary.remarks()).collect();
        Finding::yes(Reason::Ready, each.join("; "))
    }
}

fn reports<'a>(summary: &Summary<'a, ServerReplica>) -> Vec<&'a ServerReplica> {
    summary.replicas.iter().filter_map(|replica| replica.report).collect()
}

/// The Events that a change of status is worth.
pub(crate) fn notes<S: State>(previous: &S, next: &S) -> Vec<Note> {
    summary::notes(previous.conditions(), next.conditions())
}
