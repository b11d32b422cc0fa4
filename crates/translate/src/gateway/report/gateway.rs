//! The status of a Gateway: whether it is accepted, whether clients are served, and where.

use causeway_ir::tls::ClientCertificateMode;
use serde_json::Value;

use super::listeners::{self, set_is_accepted};
use crate::gateway::own::Own;
use crate::gateway::picture::Status;
use crate::gateway::secrets::Wrong;
use crate::gateway::status::{Stamp, Wanted, conditions, fields};
use crate::gateway::world::Observed;
use crate::references::Verdict;

/// Conditions of ours that go away when they are not said.
const PASSING: [&str; 1] = ["InsecureFrontendValidationMode"];

/// Where a Gateway stands.
pub(in crate::gateway) struct Standing {
    /// Whether it makes sense.
    pub(in crate::gateway) accepted: Verdict,
    /// Whether clients are served.
    pub(in crate::gateway) programmed: Verdict,
}

/// Where a Gateway stands, with what is seen of its data plane.
pub(in crate::gateway) fn standing(own: &Own<'_>, observed: &Observed) -> Standing {
    let accepted = accepted(own);
    let programmed = if accepted.holds {
        programmed(own, observed)
    } else {
        Verdict::no("Invalid", format!("the Gateway is not accepted: {}", accepted.message))
    };
    Standing { accepted, programmed }
}

fn accepted(own: &Own<'_>) -> Verdict {
    if let Some(why) = &own.gateway.unreadable {
        return Verdict::no("Invalid", format!("it can't be read: {why}"));
    }
    if let Err(why) = &own.parameters {
        return Verdict::no("InvalidParameters", why);
    }
    if let Some(why) = &own.requested.unsupported {
        return Verdict::no("UnsupportedAddress", why);
    }
    let bad: Vec<&str> = own
        .listeners
        .iter()
        .filter(|listener| listener.set.is_none() && !listener.accepted.holds)
        .map(|listener| listener.spec.name.as_str())
        .collect();
    if own.listeners.is_empty() {
        return Verdict::no("ListenersNotValid", "there is no listener: write one in spec.listeners");
    }
    if own.listeners.iter().all(|listener| !listener.accepted.holds) {
        return Verdict::no("ListenersNotValid", "no listener is accepted: their conditions say why");
    }
    if !bad.is_empty() {
        let message =
            format!("listeners that are not accepted: {}; their conditions say why", bad.join(", "));
        return Verdict::yes("ListenersNotValid", message);
    }
    Verdict::yes("Accepted", "the Gateway makes sense")
}

fn programmed(own: &Own<'_>, observed: &Observed) -> Verdict {
    if let Some(why) = &observed.stuck {
        return Verdict::no("Pending", format!("pods can't be given the newest configuration: {why}"));
    }
    let addressed = own.requested.verdict(observed);
    if !addressed.holds {
        return addressed;
    }
    let pending = |message: &str| {
        let trouble = observed.trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default();
        Verdict::no("Pending", format!("{message}{trouble}"))
    };
    if !observed.serving {
        return pending("no pod serves yet");
    }
    if observed.running_generation.is_none_or(|running| running < own.gateway.meta.generation) {
        return pending("pods have not all taken the newest configuration yet");
    }
    addressed
}

fn resolved(own: &Own<'_>) -> Verdict {
    if let Some(Err(wrong)) = &own.certificate {
        let reason = match wrong {
            Wrong::NotPermitted(_) => "RefNotPermitted",
            Wrong::Kind(_) | Wrong::Missing(_) => "InvalidClientCertificateRef",
        };
        return Verdict::no(reason, format!("spec.tls.backend.clientCertificateRef: {}", wrong.message()));
    }
    let bad: Vec<&str> = own
        .listeners
        .iter()
        .filter(|listener| listener.set.is_none() && !listener.resolved.holds)
        .map(|listener| listener.spec.name.as_str())
        .collect();
    if bad.is_empty() {
        return Verdict::yes("ResolvedRefs", "all references are good");
    }
    let message = format!("listeners with bad references: {}; their conditions say why", bad.join(", "));
    Verdict::no("ListenersNotResolved", message)
}

/// The status of a Gateway.
pub(in crate::gateway) fn status(
    own: &Own<'_>,
    standing: &Standing,
    observed: &Observed,
    now: &str,
) -> Status {
    let old = &own.gateway.status;
    let stamp = Stamp { generation: own.gateway.meta.generation, now };
    let mut said: Vec<Wanted> = vec![
        ("Accepted", standing.accepted.clone()),
        ("Programmed", standing.programmed.clone()),
        ("ResolvedRefs", resolved(own)),
    ];
    let is_insecure = own.listeners.iter().any(|listener| {
        listener
            .clients
            .as_ref()
            .is_some_and(|clients| clients.mode == ClientCertificateMode::InsecureFallback)
    });
    if is_insecure {
        let message = "clients are let in whose certificate is missing or bad";
        said.push(("InsecureFrontendValidationMode", Verdict::yes("ConfigurationChanged", message)));
    }
    let mut status = fields(old);
    status.insert("conditions".to_owned(), conditions(&old["conditions"], &said, &PASSING, stamp));
    let addresses = own.requested.status(observed);
    if addresses.is_empty() {
        status.remove("addresses");
    } else {
        status.insert("addresses".to_owned(), Value::Array(addresses));
    }
    let listeners = listeners::statuses(own, None, &old["listeners"], &standing.programmed, stamp);
    status.insert("listeners".to_owned(), listeners);
    let sets = (0..own.sets.len()).filter(|set| set_is_accepted(own, *set, standing).holds).count();
    // Definitions that are older than sets have no such field: what is not counted is not written.
    if sets > 0 || status.contains_key("attachedListenerSets") {
        status.insert("attachedListenerSets".to_owned(), sets.into());
    }
    Status::of(old, Value::Object(status))
}
