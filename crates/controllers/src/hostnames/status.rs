//! How statuses are written, and which Events they become.

use causeway_api::{
    GatewayHostnameRequestStatus, HostnameZoneStatus,
    conditions::{ConditionType, Reason},
};
use causeway_providers::Error;
use causeway_translate::hostname::status::CONDITIONS;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::framework::{
    events::{Note, Severity},
    report::chain,
    status::{Shared, transitions},
};

impl Shared for GatewayHostnameRequestStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = CONDITIONS;

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

impl Shared for HostnameZoneStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = &[ConditionType::Ready];

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

/// What is worth telling: a step that is done, and one that can't be done as things are.
pub(super) fn notes(
    previous: &GatewayHostnameRequestStatus,
    next: &GatewayHostnameRequestStatus,
) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for condition in transitions(&previous.conditions, &next.conditions) {
        let is_summary = [ConditionType::Ready, ConditionType::Deleting]
            .iter()
            .any(|kind| kind.as_str() == condition.type_);
        let under_way = [
            Reason::Progressing,
            Reason::WaitingForOthers,
            Reason::PendingIssuance,
            Reason::PendingValidationRecords,
            Reason::ValidationRecordFailed,
            Reason::RequestFailed,
            Reason::WaitingForAddress,
            Reason::DeletionInProgress,
            Reason::WaitingForCertDetachment,
        ];
        let is_under_way = under_way.iter().any(|reason| reason.as_str() == condition.reason);
        match condition.status.as_str() {
            "True" if !(is_summary && is_under_way) => notes.push(Note::moved(condition, true)),
            // The summary only repeats it.
            "False" if !is_summary && !is_under_way => notes.push(Note::moved(condition, false)),
            _ => {}
        }
    }
    if previous.assigned_gateway != next.assigned_gateway
        && let Some(gateway) = &next.assigned_gateway
    {
        notes.push(Note {
            severity: Severity::Normal,
            reason: "GatewayAssigned".to_owned(),
            action: "Reconcile",
            text: format!("Gateway {gateway}"),
        });
    }
    notes
}

/// Zones say how they are in their status alone.
pub(super) fn no_notes(_: &HostnameZoneStatus, _: &HostnameZoneStatus) -> Vec<Note> {
    Vec::new()
}

/// Whether a failure is about the provider as a whole, and not about what it was asked for.
pub(super) fn is_of_provider(error: &Error) -> bool {
    match error {
        Error::ZoneNotFound { .. }
        | Error::Denied { .. }
        | Error::RateLimited { .. }
        | Error::Unavailable { .. } => true,
        Error::NotOurs { .. } | Error::Invalid { .. } | Error::InUse { .. } => false,
    }
}

/// A provider's failure as a reason and a message.
pub(super) fn said(error: &Error) -> (Reason, String) {
    let reason = match error {
        Error::NotOurs { .. } => Reason::RecordNotOwned,
        Error::ZoneNotFound { .. } => Reason::ZoneNotFound,
        Error::Denied { .. } => Reason::MissingPrivileges,
        Error::RateLimited { .. } => Reason::RateLimited,
        Error::Unavailable { .. } => Reason::ProviderFailed,
        Error::Invalid { .. } => Reason::InvalidSpec,
        Error::InUse { .. } => Reason::WaitingForCertDetachment,
    };
    (reason, chain(error))
}
