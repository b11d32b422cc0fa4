//! The pure middle of the Deployment controller: from a Deployment and its ReplicaSets to the next step of the rollout.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    conditions::{self, PROGRESSING},
    revision::{self, DESIRED_REPLICAS, MAX_REPLICAS},
    rolling::{self, Bounds, wanted},
    status,
};
use crate::workload::{
    controller_reference,
    hash::{POD_TEMPLATE_HASH, same_template, template_hash},
};

/// One write to a ReplicaSet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Create(Box<ReplicaSet>),
    Patch { name: String, patch: Value },
    Delete { name: String },
}

/// What a reconcile does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub actions: Vec<Action>,
    /// Texts of the events about changed sizes.
    pub scaled: Vec<String>,
    pub status: DeploymentStatus,
    /// The Deployment's own revision annotation.
    pub revision: Option<String>,
    pub check_again: Option<Duration>,
}

/// Decides the next step; `old_pods` tells whether pods of older templates still exist (asked for `Recreate` only).
pub(super) fn plan(deployment: &Deployment, sets: &[ReplicaSet], old_pods: bool, now: Timestamp) -> Plan {
    let bounds = Bounds::of(deployment);
    let new = newest(deployment, sets);
    let all: Vec<&ReplicaSet> = sets.iter().collect();
    let old: Vec<&ReplicaSet> =
        sets.iter().filter(|set| new.is_none_or(|new| new.metadata.uid != set.metadata.uid)).collect();
    let (status, check_again) = status::status(deployment, bounds, new, &all, now);
    let mut plan = Plan { actions: Vec::new(), scaled: Vec::new(), status, revision: None, check_again };
    if deployment.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    if !paused {
        plan.revise(deployment, new, &old);
    }
    if paused || rolling::is_scaling(bounds, &all) {
        plan.resize(bounds, &all, rolling::scaled_sizes(bounds, new, &old));
    } else if bounds.recreate {
        plan.recreate(deployment, bounds, new, &old, &all, old_pods, now);
    } else {
        plan.roll(deployment, bounds, new, &old, &all, now);
    }
    if !paused && deployment.status.as_ref().is_some_and(|status| status::is_complete(bounds, status)) {
        let surplus = revision::beyond_history(deployment, &old);
        plan.actions.extend(surplus.into_iter().map(|set| Action::Delete { name: set.name_any() }));
    }
    plan
}

/// The ReplicaSet of the Deployment's present template; the oldest when there are several.
fn newest<'a>(deployment: &Deployment, sets: &'a [ReplicaSet]) -> Option<&'a ReplicaSet> {
    let template = &deployment.spec.as_ref()?.template;
    sets.iter()
        .filter(|set| {
            set.spec
                .as_ref()
                .and_then(|spec| spec.template.as_ref())
                .is_some_and(|own| same_template(own, template))
        })
        .min_by_key(|set| set.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

impl Plan {
    /// Keeps annotations, revision and `minReadySeconds` of the newest ReplicaSet right.
    fn revise(&mut self, deployment: &Deployment, new: Option<&ReplicaSet>, old: &[&ReplicaSet]) {
        let next = revision::next(old);
        let Some(new) = new else {
            return;
        };
        let before = new.annotations();
        let after = revision::annotations(deployment, before, next);
        self.revision = after.get(revision::REVISION).cloned();
        let min_ready = deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let own_min_ready = new.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        if after != *before || min_ready != own_min_ready {
            let changed: BTreeMap<_, _> =
                after.iter().filter(|(key, value)| before.get(*key) != Some(*value)).collect();
            let patch = json!({"metadata": {"annotations": changed}, "spec": {"minReadySeconds": min_ready}});
            self.actions.push(Action::Patch { name: new.name_any(), patch });
        }
    }

    fn roll(
        &mut self,
        deployment: &Deployment,
        bounds: Bounds,
        new: Option<&ReplicaSet>,
        old: &[&ReplicaSet],
        all: &[&ReplicaSet],
        now: Timestamp,
    ) {
        let total: i32 = all.iter().map(|set| wanted(set)).sum();
        let Some(new) = new else {
            self.create(deployment, rolling::new_size(bounds, 0, total), bounds, old, now);
            return;
        };
        self.found(new, now);
        let size = rolling::new_size(bounds, wanted(new), total);
        if size != wanted(new) {
            self.resize(bounds, all, vec![(new.name_any(), size)]);
            return;
        }
        self.resize(bounds, all, rolling::old_sizes(bounds, new, old));
    }

    #[allow(clippy::too_many_arguments)]
    fn recreate(
        &mut self,
        deployment: &Deployment,
        bounds: Bounds,
        new: Option<&ReplicaSet>,
        old: &[&ReplicaSet],
        all: &[&ReplicaSet],
        old_pods: bool,
        now: Timestamp,
    ) {
        let active: Vec<_> =
            old.iter().filter(|set| wanted(set) > 0).map(|set| (set.name_any(), 0)).collect();
        if !active.is_empty() {
            self.resize(bounds, all, active);
            return;
        }
        if old_pods {
            return;
        }
        match new {
            None => self.create(deployment, bounds.replicas, bounds, old, now),
            Some(new) => {
                self.found(new, now);
                if wanted(new) != bounds.replicas {
                    self.resize(bounds, all, vec![(new.name_any(), bounds.replicas)]);
                }
            }
        }
    }

    /// A rollout that goes back to a known template starts its deadline, too.
    fn found(&mut self, new: &ReplicaSet, now: Timestamp) {
        let list = self.status.conditions.get_or_insert_default();
        if conditions::get(list, PROGRESSING).is_none() {
            let message = format!("Found new replica set {:?}", new.name_any());
            conditions::set(list, PROGRESSING, "True", "FoundNewReplicaSet", message, now);
        }
    }

    fn create(
        &mut self,
        deployment: &Deployment,
        size: i32,
        bounds: Bounds,
        old: &[&ReplicaSet],
        now: Timestamp,
    ) {
        let Some(set) = build_replica_set(deployment, size, bounds, revision::next(old)) else {
            return;
        };
        let name = set.name_any();
        self.revision = set.annotations().get(revision::REVISION).cloned();
        if size > 0 {
            self.scaled.push(format!("Scaled up replica set {name} from 0 to {size}"));
        }
        let list = self.status.conditions.get_or_insert_default();
        let message = format!("Created new replica set {name:?}");
        conditions::touch(list, PROGRESSING, "True", "NewReplicaSetCreated", message, now);
        self.actions.push(Action::Create(Box::new(set)));
    }

    /// Brings ReplicaSets to new sizes, and notes for which size of the Deployment that was.
    fn resize(&mut self, bounds: Bounds, all: &[&ReplicaSet], sizes: Vec<(String, i32)>) {
        let (desired, max) = (bounds.replicas.to_string(), bounds.max_total().to_string());
        for (name, size) in sizes {
            let Some(set) = all.iter().find(|set| set.name_any() == name) else {
                continue;
            };
            let before = wanted(set);
            let noted = set.annotations().get(DESIRED_REPLICAS) == Some(&desired)
                && set.annotations().get(MAX_REPLICAS) == Some(&max);
            if before == size && noted {
                continue;
            }
            if before != size {
                let direction = if size > before { "up" } else { "down" };
                self.scaled.push(format!("Scaled {direction} replica set {name} from {before} to {size}"));
            }
            let annotations = json!({DESIRED_REPLICAS: desired, MAX_REPLICAS: max});
            let patch = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": size}});
            self.actions.push(Action::Patch { name, patch });
        }
    }
}

fn build_replica_set(
    deployment: &Deployment,
    size: i32,
    bounds: Bounds,
    revision: i64,
) -> Option<ReplicaSet> {
    let spec = deployment.spec.as_ref()?;
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = template_hash(&spec.template, collisions);
    let mut template = spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(POD_TEMPLATE_HASH.into(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.into(), hash.clone());
    let mut annotations = revision::annotations(deployment, &BTreeMap::new(), revision);
    annotations.insert(DESIRED_REPLICAS.into(), bounds.replicas.to_string());
    annotations.insert(MAX_REPLICAS.into(), bounds.max_total().to_string());
    let mut set = ReplicaSet {
        spec: Some(ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        ..ReplicaSet::default()
    };
    set.metadata.name = Some(format!("{}-{hash}", deployment.name_any()));
    set.metadata.namespace = deployment.namespace();
    set.metadata.labels = Some(labels);
    set.metadata.annotations = Some(annotations);
    set.metadata.owner_references = Some(vec![controller_reference(deployment)]);
    Some(set)
}

#[cfg(test)]
mod tests;
