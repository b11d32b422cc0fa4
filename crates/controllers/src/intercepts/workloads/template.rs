//! The template of a workload, and how far its pods have followed it.

use std::collections::BTreeMap;

use causeway_api::names;
use causeway_translate::intercept::{TargetKind, TargetRef};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{Container, Pod, PodTemplateSpec, Volume},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{ResourceExt as _, api::ApiResource};
use serde_json::{Value, json};

use super::{annotation_path, begun_annotations, own_volumes, unchanged};
use crate::{
    framework::kinds::{DEPLOYMENT, STATEFUL_SET},
    intercepts::neighbourhood::Namespace,
};

/// A workload with a template.
pub(super) struct Template<'a> {
    pub(super) metadata: &'a ObjectMeta,
    pods: &'a PodTemplateSpec,
    pub(super) resource: ApiResource,
    /// Its controller knows the newest template.
    pub(super) is_seen: bool,
    /// Its pods do not all follow the template yet.
    pub(super) is_rolling: bool,
    /// And they will not by themselves.
    pub(super) is_stuck: bool,
}

/// Keeps what is looked at.
pub(super) enum Held {
    Deployment(std::sync::Arc<Deployment>),
    StatefulSet(std::sync::Arc<StatefulSet>),
}

impl Held {
    /// The workload of this name.
    pub(super) fn find(near: &Namespace, target: &TargetRef) -> Option<Self> {
        match target.kind {
            TargetKind::Deployment => near
                .deployments
                .all()
                .into_iter()
                .find(|one| one.name_any() == target.name)
                .map(Self::Deployment),
            TargetKind::StatefulSet => near
                .stateful_sets
                .all()
                .into_iter()
                .find(|one| one.name_any() == target.name)
                .map(Self::StatefulSet),
            TargetKind::ReplicaSet | TargetKind::Pod => None,
        }
    }

    pub(super) fn template(&self) -> Option<Template<'_>> {
        Some(match self {
            Self::Deployment(one) => {
                let spec = one.spec.as_ref()?;
                let status = one.status.clone().unwrap_or_default();
                let wanted = spec.replicas.unwrap_or(1);
                let count = |count: Option<i32>| count.unwrap_or_default();
                let is_seen = status.observed_generation >= one.metadata.generation;
                let is_out = is_seen
                    && count(status.updated_replicas) >= wanted
                    && count(status.replicas) == count(status.updated_replicas)
                    && count(status.available_replicas) >= wanted;
                // Of an earlier template that says nothing.
                let has_given_up = is_seen
                    && status
                        .conditions
                        .iter()
                        .flatten()
                        .any(|condition| condition.type_ == "Progressing" && condition.status == "False");
                Template {
                    metadata: &one.metadata,
                    pods: &spec.template,
                    resource: DEPLOYMENT.resource(),
                    is_seen,
                    is_rolling: !is_out,
                    is_stuck: has_given_up || spec.paused == Some(true),
                }
            }
            Self::StatefulSet(one) => {
                let spec = one.spec.as_ref()?;
                let status = one.status.clone().unwrap_or_default();
                let wanted = spec.replicas.unwrap_or(1);
                let strategy = spec.update_strategy.as_ref();
                // Those below the partition keep what they have.
                let kept =
                    strategy.and_then(|one| one.rolling_update.as_ref()?.partition).unwrap_or_default();
                let is_seen = status.observed_generation >= one.metadata.generation;
                let is_out = is_seen
                    && status.updated_replicas.unwrap_or_default() >= wanted - kept
                    && status.ready_replicas.unwrap_or_default() >= wanted;
                // Its pods are replaced when their owner deletes them.
                let by_hand = strategy.and_then(|one| one.type_.as_deref()) == Some("OnDelete");
                Template {
                    metadata: &one.metadata,
                    pods: &spec.template,
                    resource: STATEFUL_SET.resource(),
                    is_seen,
                    is_rolling: !is_out,
                    is_stuck: by_hand,
                }
            }
        })
    }
}

impl Template<'_> {
    pub(super) fn containers(&self) -> &[Container] {
        self.pods.spec.as_ref().map_or(&[], |spec| &spec.containers)
    }

    /// Whether a pod is one of its own, by its labels.
    pub(super) fn has_made(&self, pod: &Pod) -> bool {
        let empty = BTreeMap::new();
        let labels = self.pods.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
        labels.unwrap_or(&empty).iter().all(|(key, value)| pod.labels().get(key) == Some(value))
            && pod.owner_references().iter().any(|owner| owner.controller == Some(true))
    }

    /// The change to this container with these volumes, and the proof of what was there, or none of it.
    pub(super) fn change(
        &self,
        container: &Container,
        volumes: Vec<Volume>,
        sealed: Option<&str>,
    ) -> Vec<Value> {
        let mut steps = unchanged(self.metadata);
        if let Some(place) = self.containers().iter().position(|one| one.name == container.name) {
            let path = format!("/spec/template/spec/containers/{place}");
            steps.push(json!({"op": "replace", "path": path, "value": container}));
        }
        let has = self.pods.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        let mut wanted = own_volumes(has);
        wanted.extend(volumes);
        let path = "/spec/template/spec/volumes";
        match (wanted.is_empty(), has.is_some()) {
            (true, true) => steps.push(json!({"op": "remove", "path": path})),
            (true, false) => {}
            (false, _) => steps.push(json!({"op": "add", "path": path, "value": wanted})),
        }
        let annotations = self.metadata.annotations.as_ref();
        match sealed {
            Some(sealed) => {
                steps.extend(begun_annotations(self.metadata));
                steps.push(json!({"op": "add", "path": annotation_path(), "value": sealed}));
            }
            None if annotations.is_some_and(|all| all.contains_key(names::ANNOTATION_ORIGINAL)) => {
                steps.push(json!({"op": "remove", "path": annotation_path()}));
            }
            None => {}
        }
        steps
    }
}
