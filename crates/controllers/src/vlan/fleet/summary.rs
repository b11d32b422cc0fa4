//! What is to be said of the pods of one object, whatever its kind: whether they took the spec, are as they are asked for, and
//! serve. Pure.

use causeway_api::conditions::{ConditionType, Reason, Status, find};
use causeway_ir::Problem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    DeploymentState, Fleet, PodState,
    replica::{Replica, Said},
    update::Waiting,
};
use crate::{
    framework::{apply::Error, error::Category, events::Note, finding::Finding, report, status::transitions},
    vlan::addresses::Withheld,
};

/// How the pods of a kind are spoken of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    /// What one of them is.
    pub(crate) one: &'static str,
    /// What one does that does nothing yet.
    pub(crate) idle: &'static str,
    /// The fields of images.
    pub(crate) images: &'static str,
}

/// What one pass over an object has found out, beside how its pods are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pass<'a> {
    /// What is wrong with the object.
    pub(crate) problems: &'a [Problem],
    /// The generation of the last spec that pods took.
    pub(crate) accepted: Option<i64>,
    /// Deployments that are changed later, one after another.
    pub(crate) held: &'a [String],
    /// Why what the operator brings is not in every pod yet.
    pub(crate) waiting: Option<&'a Waiting>,
    /// Images that can't be had, in words.
    pub(crate) image_troubles: &'a [String],
    /// Addresses that no pod gets.
    pub(crate) withheld: &'a [Withheld],
    /// Why neighbours do not reach its pods, in words.
    pub(crate) unreached: Option<&'a str>,
}

/// What is known of an object's pods.
pub(crate) struct Summary<'a, R> {
    words: Words,
    /// The newest generation of the spec.
    generation: i64,
    pass: Pass<'a>,
    /// One for each address.
    pub(crate) replicas: Vec<Replica<'a, R>>,
    deployments: &'a [DeploymentState],
    pods: &'a [PodState],
}

impl<'a, R: Said> Summary<'a, R> {
    /// Of these replicas, which are pods of `fleet`.
    pub(crate) fn new(
        words: Words,
        generation: i64,
        pass: Pass<'a>,
        fleet: &'a impl Fleet,
        replicas: impl Iterator<Item = Replica<'a, R>>,
    ) -> Self {
        let (deployments, pods) = (fleet.deployments(), fleet.pods());
        Self { words, generation, pass, replicas: replicas.collect(), deployments, pods }
    }
}

impl<R: Said> Summary<'_, R> {
    /// `ConfigurationValid`: the spec makes sense, and every pod took it.
    pub(crate) fn configuration_valid(&self) -> Finding {
        if let Some(wrong) = self.invalid().or_else(|| self.refused()) {
            return wrong;
        }
        let waiting = self.replicas.iter().filter(|replica| !replica.has_taken(self.generation));
        let waiting: Vec<_> = waiting.map(|replica| replica.name.as_str()).collect();
        if waiting.is_empty() {
            let message = format!("every {} has taken the configuration", self.words.one);
            return Finding::yes(Reason::ConfigurationApplied, message);
        }
        Finding::unknown(format!("waiting for {} to take the configuration", waiting.join(", ")))
    }

    /// `UpToDate`: every pod is of the form that the spec and the operator ask for.
    pub(crate) fn up_to_date(&self) -> Finding {
        if let Some(invalid) = self.invalid() {
            return invalid;
        }
        if !self.pass.image_troubles.is_empty() {
            return Finding::no(Reason::ImageNotReady, self.pass.image_troubles.join("; "));
        }
        let failing = self.failing();
        if !failing.is_empty() {
            return Finding::no(Reason::PodsFailing, failing.join("; "));
        }
        let held = self.pass.held.join(", ");
        match self.pass.waiting {
            Some(Waiting::ForOwner) => {
                let message = format!(
                    "the operator has an update for {held}: set spec.updatePolicy to Automatic, or write the image into {}",
                    self.words.images
                );
                return Finding::no(Reason::UpdateHeld, message);
            }
            Some(Waiting::ForTurn(first)) => {
                let message = format!("{held} will be updated after {}", first.join(", "));
                return Finding::no(Reason::WaitingForTurn, message);
            }
            None => {}
        }
        let is_out = |replica: &&Replica<'_, R>| {
            let mut states = self.deployments.iter();
            states.any(|state| state.index == replica.index && !state.is_rolling)
                && !self.pass.held.contains(&replica.name)
        };
        let rolling = self.replicas.iter().filter(|replica| !is_out(replica));
        let rolling: Vec<_> = rolling.map(|replica| replica.name.as_str()).collect();
        if rolling.is_empty() {
            return Finding::yes(Reason::UpToDate, "every pod is as it is asked for");
        }
        let message = format!("pods are replaced one after another: {}", rolling.join(", "));
        Finding::no(Reason::RollingOut, message)
    }

    /// What is wrong with the spec.
    pub(crate) fn invalid(&self) -> Option<Finding> {
        let mut each: Vec<_> = self.pass.problems.iter().map(ToString::to_string).collect();
        if each.is_empty() {
            return None;
        }
        if let Some(accepted) = self.pass.accepted {
            each.push(format!("the spec of generation {accepted} runs on"));
        }
        Some(Finding::no(Reason::InvalidSpec, each.join("; ")))
    }

    /// Pods that do not take the newest spec.
    pub(crate) fn refused(&self) -> Option<Finding> {
        let each: Vec<_> =
            self.replicas.iter().filter_map(|replica| replica.refuses(self.generation)).collect();
        (!each.is_empty()).then(|| Finding::no(Reason::ConfigurationRejected, each.join("; ")))
    }

    /// The addresses that no pod gets, and why.
    pub(crate) fn withheld(&self) -> Option<Finding> {
        let first = self.pass.withheld.first()?;
        let mut each: Vec<_> = self.pass.withheld.iter().map(|withheld| withheld.message.as_str()).collect();
        each.dedup();
        Some(Finding::no(first.reason, each.join("; ")))
    }

    /// Pods without their address, and what to do then.
    pub(crate) fn unattached(&self, remedy: &str) -> Option<Finding> {
        let lacks =
            |replica: &&Replica<'_, R>| replica.report.is_some_and(|said| said.attached() == Some(false));
        let lacking = self.replicas.iter().filter(lacks).map(|replica| {
            format!("{} does not have {}", replica.pod_name(), replica.address.as_deref().unwrap_or_default())
        });
        let lacking: Vec<_> = lacking.collect();
        let message = || format!("{}: {remedy}", lacking.join(", "));
        (!lacking.is_empty()).then(|| Finding::no(Reason::AttachmentFailed, message()))
    }

    /// Pods that have their address, and are not reached there.
    pub(crate) fn unreached(&self) -> Option<Finding> {
        self.pass.unreached.map(|why| Finding::no(Reason::NotReached, why))
    }

    /// Pods that have not said whether they have their address.
    pub(crate) fn silent(&self) -> Option<Finding> {
        let is_silent =
            |replica: &&Replica<'_, R>| replica.report.is_none_or(|said| said.attached().is_none());
        let silent = self.replicas.iter().filter(is_silent).map(|replica| replica.name.as_str());
        let silent: Vec<_> = silent.collect();
        let message = || format!("waiting for {} to report its address", silent.join(", "));
        (!silent.is_empty()).then(|| Finding::unknown(message()))
    }

    /// What keeps pods from their work; what fails comes before what only takes its time.
    pub(crate) fn waits_for(&self) -> Option<Finding> {
        let waits =
            |replica: &Replica<'_, R>| replica.waits_for(self.deployments, self.generation, self.words.idle);
        let mut waiting: Vec<_> = self.replicas.iter().filter_map(waits).collect();
        waiting.sort_by_key(|(reason, _)| matches!(reason, Reason::PodsStarting | Reason::Progressing));
        let (reason, _) = waiting.first()?;
        let each: Vec<_> = waiting.iter().map(|(_, message)| message.as_str()).collect();
        Some(Finding::no(*reason, each.join("; ")))
    }

    /// What is to be said besides of pods that serve.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = String> {
        let held = (!self.pass.held.is_empty())
            .then(|| format!("still to be replaced, one at a time: {}", self.pass.held.join(", ")));
        held.into_iter().chain(self.pass.image_troubles.iter().cloned()).chain(self.failing())
    }

    /// Whether some pods have only not read the newest spec yet, and nothing else is in the way of any.
    pub(crate) fn are_behind(&self) -> bool {
        let is_behind = |replica: &Replica<'_, R>| {
            replica.report.is_some_and(|said| said.observed_generation() < Some(self.generation))
        };
        self.replicas.iter().all(|replica| replica.serves(self.deployments))
            && self.replicas.iter().any(is_behind)
    }

    /// Pods that are to take the place of others, and can't, and what refuses to make them.
    fn failing(&self) -> Vec<String> {
        let pods = self.pods.iter().filter(|pod| !pod.is_leaving);
        let pods = pods.filter_map(|pod| Some(format!("pod {}: {}", pod.name, pod.trouble.as_ref()?)));
        let refused = self.deployments.iter();
        let refused = refused
            .filter_map(|state| Some(format!("Deployment {}: {}", state.name, state.refused.as_ref()?)));
        pods.chain(refused).collect()
    }
}

/// Objects that could not be made or removed.
pub(crate) fn failed<'a>(failures: impl Iterator<Item = &'a Error>) -> Option<Finding> {
    let failures: Vec<_> = failures.collect();
    let reason = match failures.first()?.category() {
        Category::Conflict => Reason::Conflict,
        _ => Reason::ComponentFailed,
    };
    let each: Vec<_> = failures.iter().map(|error| report::chain(*error)).collect();
    Some(Finding::no(reason, each.join("; ")))
}

/// Whether that was said of an object.
pub(crate) fn is_ready(conditions: &[Condition]) -> bool {
    find(conditions, ConditionType::Ready).is_some_and(|ready| ready.status == Status::True.as_str())
}

/// The Events that a change of conditions is worth.
pub(crate) fn notes(previous: &[Condition], next: &[Condition]) -> Vec<Note> {
    // Waiting is not news.
    let calm = [
        Reason::Progressing,
        Reason::PodsStarting,
        Reason::DeletionInProgress,
        Reason::UpToDate,
        Reason::RollingOut,
        Reason::WaitingForTurn,
    ];
    let was_ready = is_ready(previous);
    let mut notes: Vec<Note> = Vec::new();
    for condition in transitions(previous, next) {
        let is_good =
            condition.status == Status::True.as_str() && condition.type_ != ConditionType::Deleting.as_str();
        let waits = calm.iter().any(|reason| reason.as_str() == condition.reason);
        // A pod that no longer serves is news, whatever it waits for.
        let fell = condition.type_ == ConditionType::Ready.as_str() && was_ready && !is_good;
        // The summary's bad news is told by the condition that it comes from.
        if (waits && !fell) || notes.iter().any(|note| note.text == condition.message) {
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
