//! What the status of a request says. Pure: the time is an argument.

use std::collections::BTreeMap;

use causeway_api::{
    InterceptMode, InterceptRequest, InterceptRequestStatus, InterceptState,
    conditions::{self, ConditionType, Reason, Status},
};
use causeway_translate::intercept::{Accepted, Verdict};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::services::Hold;
use crate::framework::{
    events::Note,
    finding::Finding,
    status::{Shared, transitions},
};

impl Shared for InterceptRequestStatus {
    const OWN_CONDITIONS: &'static [ConditionType] =
        &[ConditionType::Accepted, ConditionType::Installed, ConditionType::Connected, ConditionType::Ready];

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

/// What is known of a request beside what it asks for.
pub(crate) struct Facts<'a> {
    /// What becomes of it.
    pub(crate) verdict: &'a Verdict,
    /// Where each of its Services stands, or its target in mode Container.
    pub(crate) holds: BTreeMap<String, Hold>,
    /// Whether its carriers run what it asks for.
    pub(crate) is_current: bool,
    /// Whether its workstation is connected.
    pub(crate) is_connected: bool,
    /// Whether something of it is still in place.
    pub(crate) is_left: bool,
    /// What could not be done for it.
    pub(crate) failure: Option<Finding>,
    /// What its Services selected before.
    pub(crate) originals: BTreeMap<String, Value>,
}

/// The next status of a request.
pub(crate) fn status(
    request: &InterceptRequest,
    previous: &InterceptRequestStatus,
    facts: &Facts<'_>,
    now: &Time,
) -> InterceptRequestStatus {
    let generation = request.metadata.generation.unwrap_or_default();
    let mut next = InterceptRequestStatus {
        conditions: previous.conditions.clone(),
        observed_generation: Some(generation),
        ..InterceptRequestStatus::default()
    };
    let mut set = |kind, finding: Finding| finding.set(&mut next.conditions, kind, generation, now);
    match facts.verdict {
        // Nothing new is known: what was said stays.
        Verdict::Pending(why) => {
            if let Some(failure) = &facts.failure {
                next = previous.clone();
                failure.clone().set(&mut next.conditions, ConditionType::Ready, generation, now);
                return next;
            }
            if previous.conditions.is_empty() {
                set(ConditionType::Ready, Finding::unknown(why.clone()));
                next.state = Some(InterceptState::Requested);
                return next;
            }
            return InterceptRequestStatus {
                observed_generation: previous.observed_generation,
                ..previous.clone()
            };
        }
        Verdict::Ending => {
            let what = if facts.is_left { "the target is being put back" } else { "the target is as it was" };
            set(
                ConditionType::Installed,
                restoring(facts).unwrap_or_else(|| Finding::no(Reason::DeletionInProgress, what)),
            );
            set(ConditionType::Ready, Finding::no(Reason::DeletionInProgress, what));
            next.state = Some(InterceptState::Restoring);
            next.services = left(facts, previous);
        }
        Verdict::Refused(refused) => {
            let finding = Finding::no(refused.reason, refused.message.clone());
            set(ConditionType::Accepted, finding.clone());
            let installed =
                restoring(facts).unwrap_or_else(|| Finding::no(refused.reason, "the target is as it was"));
            set(ConditionType::Installed, installed);
            set(ConditionType::Ready, finding);
            next.state = Some(if facts.is_left { InterceptState::Restoring } else { refused.state });
            next.services = left(facts, previous);
        }
        Verdict::Accepted(accepted) => {
            let was_installed =
                conditions::find(&previous.conditions, ConditionType::Installed).is_some_and(|said| {
                    said.status == Status::True.as_str() && said.observed_generation == Some(generation)
                });
            let installed = installed(request, accepted, facts, was_installed);
            let connected = if facts.is_connected {
                Finding::yes(Reason::Connected, format!("Workstation {} is connected", accepted.workstation))
            } else {
                let whence = away(request);
                let message = format!("Workstation {} is not connected: {whence}", accepted.workstation);
                Finding::no(Reason::Disconnected, message)
            };
            let is_installed = installed.status == Status::True;
            next.active = is_installed && facts.is_connected;
            next.services.clone_from(&accepted.services);
            let has_failed = facts.failure.is_some();
            next.state = Some(match (is_installed, facts.is_connected) {
                (true, true) => InterceptState::Active,
                (true, false) => InterceptState::Installed,
                (false, _) if has_failed || facts.holds.values().any(|hold| *hold == Hold::Lost) => {
                    InterceptState::Error
                }
                (false, _) => InterceptState::Installing,
            });
            let ready = if next.active {
                Finding::yes(
                    Reason::Ready,
                    format!("Workstation {} gets {}", accepted.workstation, accepted.takes),
                )
            } else if is_installed {
                connected.clone()
            } else {
                installed.clone()
            };
            let mut set = |kind, finding: Finding| finding.set(&mut next.conditions, kind, generation, now);
            set(ConditionType::Accepted, Finding::yes(Reason::Accepted, accepted.takes.clone()));
            set(ConditionType::Installed, installed);
            set(ConditionType::Connected, connected);
            set(ConditionType::Ready, ready);
            if !facts.originals.is_empty() {
                next.original_config = Some([("services".to_owned(), json!(facts.originals))].into());
            }
        }
    }
    next
}

/// Where traffic goes while the machine is away.
fn away(request: &InterceptRequest) -> &'static str {
    match (request.spec.mode, request.spec.mirror, request.spec.fallback) {
        (InterceptMode::Container, ..) => {
            "nobody answers in the place of the container until it is, or until the target is put back"
        }
        (InterceptMode::Service, true, _) => "nothing is copied until it is",
        (InterceptMode::Service, false, true) => "traffic goes to the original until it is",
        (InterceptMode::Service, false, false) => {
            "what it would get is refused until it is, as spec.fallback says"
        }
    }
}

/// Services that are not known to be as they were.
fn left(facts: &Facts<'_>, previous: &InterceptRequestStatus) -> Vec<String> {
    if facts.is_left { previous.services.clone() } else { Vec::new() }
}

/// What is in the way of putting the target back.
fn restoring(facts: &Facts<'_>) -> Option<Finding> {
    if let Some(failure) = &facts.failure {
        return Some(Finding::no(Reason::RestoreFailed, failure.message.clone()));
    }
    let lost: Vec<&str> =
        facts.holds.iter().filter(|(_, hold)| **hold == Hold::Lost).map(|(name, _)| name.as_str()).collect();
    (!lost.is_empty()).then(|| Finding::no(Reason::RestoreFailed, lost_words(&lost)))
}

fn lost_words(lost: &[&str]) -> String {
    format!(
        "it is not known what {} was before: somebody has removed or changed what was written beside it; set that back by \
         hand: the selector of a Service, the container of a workload, the labels of a pod",
        lost.join(", ")
    )
}

fn installed(
    request: &InterceptRequest,
    accepted: &Accepted,
    facts: &Facts<'_>,
    was_installed: bool,
) -> Finding {
    if let Some(failure) = &facts.failure {
        return failure.clone();
    }
    if accepted.is_held {
        let message = format!(
            "the container is replaced when Workstation {} connects, and put back when it is away for long: spec.fallback says so",
            accepted.workstation
        );
        return Finding::no(Reason::Disconnected, message);
    }
    let mut waits = Vec::new();
    for (name, hold) in &facts.holds {
        match hold {
            Hold::Taken => {}
            Hold::Lost => return Finding::no(Reason::RestoreFailed, lost_words(&[name])),
            Hold::TakenBack(by) => {
                let message = format!(
                    "{by} has set {name} back; it is taken over again, ever more seldom: let {by} leave its {} alone for as \
                     long as it is intercepted",
                    match request.spec.mode {
                        InterceptMode::Service => "selector",
                        InterceptMode::Container => "container",
                    }
                );
                return Finding::no(Reason::TakenBack, message);
            }
            Hold::GivenBack(why) => {
                let message =
                    format!("{name} leads to its own pods, since its carrier does not serve: {why}");
                return Finding::no(Reason::CarrierNotReady, message);
            }
            Hold::Taking(why) => waits.push(format!("{name}: {why}")),
            Hold::Free | Hold::Freeing => waits.push(format!("{name}: its carrier is being made")),
        }
    }
    if !waits.is_empty() {
        let text = waits.join("; ");
        let is_pull = ["ErrImagePull", "ImagePullBackOff"].iter().any(|word| text.contains(word));
        return Finding::no(if is_pull { Reason::ImagePullFailed } else { Reason::Progressing }, text);
    }
    // What the carrier takes up is for another who shares it: this one is as it was.
    if !facts.is_current && !was_installed {
        return Finding::no(Reason::Progressing, "the carrier takes up what was changed");
    }
    let caught = match request.spec.mode {
        InterceptMode::Service => format!("Service {} leads to the carrier", accepted.services.join(", ")),
        InterceptMode::Container => {
            format!(
                "the carrier is in the place of container {}",
                accepted.container.as_deref().unwrap_or("?")
            )
        }
    };
    let missed = if accepted.missed.is_empty() {
        if request.spec.mode == InterceptMode::Service {
            "; what is sent to pods directly is not caught".to_owned()
        } else {
            String::new()
        }
    } else {
        format!("; not caught: {}, and what is sent to pods directly", accepted.missed.join("; "))
    };
    Finding::yes(Reason::Installed, format!("{caught}{missed}"))
}

/// What of a change is worth telling: also where an intercept is in its life.
pub(crate) fn notes(previous: &InterceptRequestStatus, next: &InterceptRequestStatus) -> Vec<Note> {
    let moved = transitions(&previous.conditions, &next.conditions).into_iter();
    let steps = [Reason::Progressing, Reason::DeletionInProgress, Reason::Disconnected].map(Reason::as_str);
    moved
        // The sum of the others says nothing of its own.
        .filter(|condition| condition.type_ != ConditionType::Ready.as_str() || condition.status == "True")
        .map(|condition| {
            let is_step = steps.contains(&condition.reason.as_str());
            let mut note = Note::moved(condition, condition.status == "True" || is_step);
            if is_step {
                note.reason.clone_from(&condition.reason);
            } else if condition.type_ == ConditionType::Ready.as_str() {
                "Active".clone_into(&mut note.reason);
            }
            note
        })
        .collect()
}

#[cfg(test)]
mod tests;
