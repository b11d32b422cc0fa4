//! The pure middle of the StatefulSet controller: the next steps towards the pods that a set shall have.
//!
//! Pods come in the order of their ordinals and go in the opposite one, each after the one before is available, unless the set
//! says `Parallel`. What is missing counts before what is too much, and that before what is of an old template.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus},
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    member::{self, POD_INDEX, POD_NAME},
    retention, revision, status,
};
use crate::workload::replica_set::{
    LONGEST_WAIT,
    plan::{is_finished, phase, ready_since, until_available},
};

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    CreateClaim { pod: String, claim: Box<PersistentVolumeClaim> },
    CreatePod(Box<Pod>),
    DeletePod { name: String, uid: Option<String> },
    LabelPod { name: String, patch: Value },
    OwnClaim { name: String, patch: Value },
}

/// All that a plan is made from.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub set: &'a StatefulSet,
    /// The set's, and no others.
    pub pods: &'a [Pod],
    /// Those of the namespace by name.
    pub claims: &'a BTreeMap<String, PersistentVolumeClaim>,
    /// What pods are made from that are not to be updated yet.
    pub current: &'a ControllerRevision,
    /// What the set's template is.
    pub update: &'a ControllerRevision,
}

/// What a reconcile does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub actions: Vec<Action>,
    pub status: StatefulSetStatus,
    /// When a ready pod becomes an available one.
    pub check_again: Option<Duration>,
}

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub is_ready: bool,
    /// How long until it counts as available, once it is ready.
    wait: Option<Duration>,
    is_leaving: bool,
}

impl Health {
    pub(super) fn is_available(self) -> bool {
        self.is_ready && self.wait.is_none()
    }

    /// Available, and to stay so.
    fn is_well(self) -> bool {
        self.is_available() && !self.is_leaving
    }
}

pub(super) fn health(set: &StatefulSet, pod: &Pod, now: Timestamp) -> Health {
    let since = ready_since(pod).filter(|_| phase(pod) == "Running");
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    Health {
        is_ready: since.is_some(),
        wait: since.and_then(|since| until_available(since, min_ready, now)),
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
    }
}

/// Compares a set with its pods.
pub(super) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let set = observed.set;
    let waits = observed.pods.iter().filter_map(|pod| health(set, pod, now).wait);
    let mut planner = Planner {
        observed: *observed,
        now,
        ordered: set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref()) != Some("Parallel"),
        actions: Vec::new(),
    };
    if set.metadata.deletion_timestamp.is_none() {
        planner.decide();
    }
    Plan {
        actions: planner.actions,
        status: status::of(observed, now),
        check_again: waits.min().map(|wait| wait.min(LONGEST_WAIT)),
    }
}

/// Nothing more can be done before something changes.
struct Wait;

struct Planner<'a> {
    observed: Observed<'a>,
    now: Timestamp,
    /// One after the other.
    ordered: bool,
    actions: Vec<Action>,
}

impl<'a> Planner<'a> {
    fn decide(&mut self) {
        let Observed { set, pods, .. } = self.observed;
        let name = set.name_any();
        let by_ordinal: HashMap<i32, &'a Pod> =
            pods.iter().filter_map(|pod| Some((member::ordinal(&name, &pod.name_any())?, pod))).collect();
        let first = member::start(set);
        let wanted: Vec<(i32, Option<&'a Pod>)> = (first..first.saturating_add(member::replicas(set)))
            .map(|ordinal| (ordinal, by_ordinal.get(&ordinal).copied()))
            .collect();
        let mut condemned: Vec<(i32, &'a Pod)> =
            by_ordinal.into_iter().filter(|(ordinal, _)| !member::is_wanted(set, *ordinal)).collect();
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let _ = self.keep(&wanted).and_then(|()| self.condemn(&condemned)).and_then(|()| self.roll(&wanted));
    }

    fn health(&self, pod: &Pod) -> Health {
        health(self.observed.set, pod, self.now)
    }

    /// In order this is as far as it goes for now; else the other pods are looked at too.
    fn hold(&self) -> Result<(), Wait> {
        if self.ordered { Err(Wait) } else { Ok(()) }
    }

    fn keep(&mut self, wanted: &[(i32, Option<&'a Pod>)]) -> Result<(), Wait> {
        for (ordinal, pod) in wanted {
            match pod {
                None => {
                    self.create(*ordinal);
                    self.hold()?;
                }
                Some(pod) => self.keep_pod(*ordinal, pod)?,
            }
        }
        Ok(())
    }

    fn keep_pod(&mut self, ordinal: i32, pod: &'a Pod) -> Result<(), Wait> {
        if is_finished(pod) {
            // The next one comes when it is gone.
            self.delete(pod);
            return self.hold();
        }
        if phase(pod) == "Pending" {
            self.create_claims(ordinal);
        }
        let health = self.health(pod);
        if !health.is_well() {
            self.hold()?;
        }
        if health.is_ready {
            self.identify(ordinal, pod);
        }
        self.own_claims(ordinal, pod);
        Ok(())
    }

    /// Makes a pod, after its claims; waits for those of an earlier pod to go that are to go with it.
    fn create(&mut self, ordinal: i32) {
        let Observed { set, claims, current, update, .. } = self.observed;
        let name = member::pod_name(set, ordinal);
        let is_leaving = |claim: &PersistentVolumeClaim| {
            claim.metadata.deletion_timestamp.is_some() || retention::is_left(set, &name, claim)
        };
        let wanted = member::claims(set, ordinal);
        if wanted.iter().filter_map(|claim| claims.get(&claim.name_any())).any(is_leaving) {
            return;
        }
        let from = if self.is_held_back(ordinal) { current } else { update };
        let Some(template) = revision::template(from) else { return };
        self.create_claims(ordinal);
        let pod = member::build_pod(set, &template, &from.name_any(), ordinal);
        self.actions.push(Action::CreatePod(Box::new(pod)));
    }

    /// Whether a pod at this place is made from the template that was before.
    fn is_held_back(&self, ordinal: i32) -> bool {
        let set = self.observed.set;
        let place = ordinal.saturating_sub(member::start(set));
        let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        if let Some(rolling) = strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
            return place < rolling.partition.unwrap_or(0);
        }
        let is_rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete");
        let not_updated = set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
        is_rolling && place < not_updated
    }

    fn create_claims(&mut self, ordinal: i32) {
        let Observed { set, claims, .. } = self.observed;
        let pod = member::pod_name(set, ordinal);
        for mut claim in member::claims(set, ordinal) {
            if !claims.contains_key(&claim.name_any()) {
                claim.metadata.owner_references = retention::at_first(set);
                self.actions.push(Action::CreateClaim { pod: pod.clone(), claim: Box::new(claim) });
            }
        }
    }

    /// Gives a pod that was adopted the labels of its place.
    fn identify(&mut self, ordinal: i32, pod: &Pod) {
        let (name, index) = (pod.name_any(), ordinal.to_string());
        if pod.labels().get(POD_NAME) != Some(&name) {
            let labels = json!({POD_NAME: name, POD_INDEX: index});
            let patch = json!({"metadata": {"uid": pod.uid(), "labels": labels}});
            self.actions.push(Action::LabelPod { name, patch });
        }
    }

    fn own_claims(&mut self, ordinal: i32, pod: &Pod) {
        let Observed { set, claims, .. } = self.observed;
        for wanted in member::claims(set, ordinal) {
            let Some(claim) = claims.get(&wanted.name_any()) else { continue };
            if let Some(owners) = retention::owners(set, pod, ordinal, claim) {
                let patch = json!({"metadata": {"uid": claim.uid(), "ownerReferences": owners}});
                self.actions.push(Action::OwnClaim { name: claim.name_any(), patch });
            }
        }
    }

    /// Deletes pods beyond the set's size, the last one first.
    fn condemn(&mut self, condemned: &[(i32, &'a Pod)]) -> Result<(), Wait> {
        for (ordinal, pod) in condemned {
            self.own_claims(*ordinal, pod);
        }
        let unwell = |(_, pod): &&(i32, &'a Pod)| !self.health(pod).is_well();
        let first_unwell = condemned.iter().rev().find(unwell).map(|(ordinal, _)| *ordinal);
        for (ordinal, pod) in condemned {
            let health = self.health(pod);
            if health.is_leaving {
                self.hold()?;
                continue;
            }
            // With two that are unwell the first one may yet be needed.
            if self.ordered && !health.is_available() && first_unwell != Some(*ordinal) {
                return Err(Wait);
            }
            self.delete(pod);
            self.hold()?;
        }
        Ok(())
    }

    /// Deletes pods of an old template, the last one first, and no more than may be missing at a time.
    fn roll(&mut self, wanted: &[(i32, Option<&'a Pod>)]) -> Result<(), Wait> {
        let Observed { set, update, .. } = self.observed;
        let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return Ok(());
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0).max(0) as usize;
        let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let mut budget = may_be_missing(most, wanted.len());
        for (_, pod) in wanted.iter().skip(partition).rev() {
            let missing = match pod {
                None => true,
                Some(pod) => {
                    let health = self.health(pod);
                    let is_old = member::revision(pod) != update.name_any();
                    if is_old && !health.is_leaving {
                        self.delete(pod);
                    }
                    is_old || !health.is_well()
                }
            };
            budget -= usize::from(missing);
            if budget == 0 {
                return Err(Wait);
            }
        }
        Ok(())
    }

    fn delete(&mut self, pod: &Pod) {
        if pod.metadata.deletion_timestamp.is_none() {
            self.actions.push(Action::DeletePod { name: pod.name_any(), uid: pod.uid() });
        }
    }
}

/// How many pods may be missing at a time, of so many: a number or a share, at least one.
fn may_be_missing(most: Option<&IntOrString>, replicas: usize) -> usize {
    let number = match most {
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(1),
        Some(IntOrString::String(share)) => {
            let share = share.strip_suffix('%').and_then(|share| share.parse::<usize>().ok());
            share.map_or(1, |share| replicas * share.min(100) / 100)
        }
        None => 1,
    };
    number.max(1)
}

#[cfg(test)]
mod tests;
