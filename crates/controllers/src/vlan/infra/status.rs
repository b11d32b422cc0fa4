//! An Infra's status, computed from what the spec asks for, what the applier could do and what the children say.
//! Pure: the time is an argument. `Ready` is true when every wanted component is.

use causeway_api::{
    ComponentStatus, Infra, InfraStatus, ServerAddresses,
    conditions::{self, ConditionType, Reason, Status},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

use super::{
    Component,
    observe::{ChildReport, Observed},
    validate::{Requested, Valid},
};
use crate::framework::{
    apply::{Action, Report},
    error::Category,
    events::{Note, Severity},
    finding::Finding,
    report,
    status::{Shared, transitions},
};

/// The condition types that this controller writes; others are left alone.
const OWN_CONDITIONS: [ConditionType; 5] = [
    ConditionType::Ready,
    ConditionType::Accepted,
    ConditionType::DHCPReady,
    ConditionType::DNSReady,
    ConditionType::ProxyReady,
];

/// Where a component stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not enabled, and gone.
    Disabled,
    /// Its part of the spec has problems; what runs is left as it is.
    Invalid,
    /// Its child could not be written or removed.
    Failed {
        /// The condition reason.
        reason: Reason,
        /// What happened.
        message: String,
    },
    /// Its child is not ready.
    Waiting {
        /// The condition reason.
        reason: Reason,
        /// What the child says.
        message: String,
    },
    /// Its child says that it is ready.
    Ready,
}

impl Shared for InfraStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = &OWN_CONDITIONS;

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

/// Where each component stands, in the order of [`Component::ALL`].
pub(crate) fn component_states(
    infra: &Infra,
    valid: &Valid,
    observed: &Observed,
    report: &Report,
) -> [State; 3] {
    let requested = [without_spec(&valid.dhcp), without_spec(&valid.dns), without_spec(&valid.proxy)];
    Component::ALL.map(|component| {
        let name = component.child_name(&infra.name_any());
        let child = format!("{} {name}", component.kind().kind);
        let seen = observed.children[component as usize].as_ref();
        match (&requested[component as usize], report.of(component.kind(), &name)) {
            (Requested::Invalid, _) => State::Invalid,
            (_, Some(Err(error))) => State::Failed {
                reason: match error.category() {
                    Category::Conflict => Reason::Conflict,
                    _ => Reason::ComponentFailed,
                },
                message: report::chain(error),
            },
            (Requested::Disabled, _) => State::Disabled,
            (Requested::Enabled(()), Some(Ok(Action::Applied(applied)))) => {
                by_child(&child, Some(&ChildReport::of(applied)))
            }
            (Requested::Enabled(()), Some(Ok(Action::Waiting))) => State::Waiting {
                reason: Reason::Progressing,
                message: format!("{child} is being deleted and is made again afterwards"),
            },
            (Requested::Enabled(()), _) => by_child(&child, seen),
        }
    })
}

fn without_spec<T>(requested: &Requested<T>) -> Requested<()> {
    match requested {
        Requested::Disabled => Requested::Disabled,
        Requested::Invalid => Requested::Invalid,
        Requested::Enabled(_) => Requested::Enabled(()),
    }
}

fn by_child(child: &str, report: Option<&ChildReport>) -> State {
    let Some(report) = report else {
        return State::Waiting { reason: Reason::Progressing, message: format!("{child} is being made") };
    };
    // Consent of others is a step to be taken, whatever works without it.
    let refused = [ConditionType::Ready, ConditionType::BackendsResolved].iter().find_map(|kind| {
        let found = conditions::find(&report.conditions, *kind)?;
        (found.status == Status::False.as_str() && found.reason == Reason::RefNotPermitted.as_str())
            .then_some(found)
    });
    if let Some(refused) = refused {
        return State::Waiting {
            reason: Reason::RefNotPermitted,
            message: format!("{child}: {}; `causeway infra grant` prints it", refused.message),
        };
    }
    if conditions::is_true(&report.conditions, ConditionType::Ready, report.generation) {
        return State::Ready;
    }
    match conditions::find(&report.conditions, ConditionType::Ready) {
        Some(ready) if ready.status != Status::True.as_str() => State::Waiting {
            reason: Reason::NotReady,
            message: format!("{child} is not ready: {}: {}", ready.reason, ready.message),
        },
        Some(_) => State::Waiting {
            reason: Reason::Progressing,
            message: format!("{child} has not caught up with its latest change"),
        },
        None => State::Waiting {
            reason: Reason::Progressing,
            message: format!("{child} has not reported whether it is ready"),
        },
    }
}

/// The status that follows `previous`.
pub(crate) fn next(
    previous: &InfraStatus,
    valid: &Valid,
    states: &[State; 3],
    generation: i64,
    now: &Time,
) -> InfraStatus {
    let mut conditions = previous.conditions.clone();
    let mut set = |kind, finding: Finding| finding.set(&mut conditions, kind, generation, now);

    let problems: Vec<_> = valid.problems.iter().map(|found| found.problem.to_string()).collect();
    let problems = problems.join("; ");
    let bad = valid.problems.first().map(|problem| problem.reason);
    let accepted = match bad {
        Some(reason) => Finding::no(reason, problems.clone()),
        None => Finding::yes(Reason::Accepted, "the spec makes sense"),
    };
    set(ConditionType::Accepted, accepted);
    set(ConditionType::Ready, summary(states, bad, problems));

    let mut gone = Vec::new();
    for (component, state) in Component::ALL.into_iter().zip(states) {
        let kind = condition_type(component);
        match state {
            State::Disabled => gone.push(kind),
            State::Ready => {
                set(kind, Finding::yes(Reason::Ready, format!("{} is ready", component.title())));
            }
            State::Invalid => {
                let own: Vec<_> =
                    valid.problems.iter().filter(|found| found.components.contains(&component)).collect();
                let reason = own.first().map_or(Reason::InvalidSpec, |problem| problem.reason);
                let fields: Vec<_> = own.iter().map(|found| found.problem.path.as_str()).collect();
                let message = format!("left as it is until the spec is corrected: see {}", fields.join(", "));
                set(kind, Finding::no(reason, message));
            }
            State::Failed { reason, message } | State::Waiting { reason, message } => {
                set(kind, Finding::no(*reason, message));
            }
        }
    }
    for kind in gone {
        conditions::remove(&mut conditions, kind);
    }

    InfraStatus {
        conditions,
        observed_generation: Some(generation),
        component_status: Some(ComponentStatus {
            dhcp_ready: states[Component::Dhcp as usize] == State::Ready,
            dns_ready: states[Component::Dns as usize] == State::Ready,
            proxy_ready: states[Component::Proxy as usize] == State::Ready,
        }),
        addresses: Some(addresses(previous, valid)),
    }
}

fn summary(states: &[State; 3], bad: Option<Reason>, problems: String) -> Finding {
    if let Some(reason) = bad {
        return Finding::no(reason, problems);
    }
    let named = || Component::ALL.into_iter().zip(states);
    let failed: Vec<_> = named()
        .filter_map(|(component, state)| match state {
            State::Failed { message, reason } => Some((*reason, format!("{}: {message}", component.title()))),
            _ => None,
        })
        .collect();
    if let Some((reason, _)) = failed.first() {
        let messages: Vec<_> = failed.iter().map(|(_, message)| message.as_str()).collect();
        return Finding::no(*reason, messages.join("; "));
    }
    let waiting: Vec<_> = named()
        .filter_map(|(component, state)| match state {
            State::Waiting { message, .. } => Some(format!("{} ({message})", component.title())),
            _ => None,
        })
        .collect();
    if !waiting.is_empty() {
        return Finding::no(Reason::ComponentsNotReady, format!("waiting for {}", waiting.join(", ")));
    }
    let ready: Vec<_> =
        named().filter(|(_, state)| **state == State::Ready).map(|(c, _)| c.title()).collect();
    let message = match ready.as_slice() {
        [] => "no component is wanted".to_owned(),
        ready => format!("ready: {}", ready.join(", ")),
    };
    Finding::yes(Reason::ReconciliationSucceeded, message)
}

/// The addresses in effect. Those of a component whose spec has problems stay: its child still has them.
fn addresses(previous: &InfraStatus, valid: &Valid) -> ServerAddresses {
    let old = previous.addresses.clone().unwrap_or_default();
    fn pick<T>(
        requested: &Requested<T>,
        old: Option<String>,
        new: impl FnOnce(&T) -> String,
    ) -> Option<String> {
        match requested {
            Requested::Disabled => None,
            Requested::Invalid => old,
            Requested::Enabled(part) => Some(new(part)),
        }
    }
    ServerAddresses {
        dhcp: pick(&valid.dhcp, old.dhcp, |dhcp| dhcp.address.to_string()),
        dns: pick(&valid.dns, old.dns, |dns| dns.address.to_string()),
        proxy: pick(&valid.proxy, old.proxy, |proxy| proxy.address.to_string()),
        range_start: pick(&valid.dhcp, old.range_start, |dhcp| dhcp.range.0.to_string()),
        range_end: pick(&valid.dhcp, old.range_end, |dhcp| dhcp.range.1.to_string()),
    }
}

/// The Events that a change of status is worth: each condition that moved, once, with the summary left to the others
/// unless it is good news.
pub(crate) fn notes(previous: &InfraStatus, next: &InfraStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    for condition in transitions(&previous.conditions, &next.conditions) {
        let is_true = condition.status == Status::True.as_str();
        // Waiting is not news, and the summary's bad news is told by the component it comes from.
        let calm = [Reason::Progressing, Reason::NotReady, Reason::ComponentsNotReady];
        let waits = calm.iter().any(|reason| reason.as_str() == condition.reason);
        let is_summary = condition.type_ == ConditionType::Ready.as_str();
        let is_news =
            if is_true { condition.type_ != ConditionType::Accepted.as_str() } else { !waits && !is_summary };
        if !is_news {
            continue;
        }
        notes.push(Note::moved(condition, is_true));
    }
    let was_ready = conditions::find(&previous.conditions, ConditionType::Ready);
    let is_ready = conditions::find(&next.conditions, ConditionType::Ready);
    if let (Some(was), Some(is)) = (was_ready, is_ready)
        && was.status == Status::True.as_str()
        && is.status != Status::True.as_str()
    {
        let (reason, text) = ("NotReady".to_owned(), is.message.clone());
        notes.push(Note { severity: Severity::Warning, reason, action: "Reconcile", text });
    }
    notes
}

fn condition_type(component: Component) -> ConditionType {
    match component {
        Component::Dhcp => ConditionType::DHCPReady,
        Component::Dns => ConditionType::DNSReady,
        Component::Proxy => ConditionType::ProxyReady,
    }
}

#[cfg(test)]
mod tests;
