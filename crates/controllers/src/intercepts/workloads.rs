//! Replaces containers of workloads by carriers, and puts them back: through the template of a Deployment or a StatefulSet, whose pods
//! are then replaced one after another; a pod that nobody made gets a stand-in. The original is written beside the change, in the
//! same request, with proof.

mod stand_in;
mod template;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
    time::Duration,
};

use causeway_api::names;
use causeway_base::{Backoff, lock::lock};
use causeway_translate::intercept::{
    Swap, TargetKind, TargetRef,
    swap::{ENV_PREFIX, Replaced, VOLUME_PREFIX, carrier_name, of},
};
use k8s_openapi::{
    api::core::v1::{Container, Pod, Volume},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::template::{Held, Template};
use super::{
    authority::Keys,
    carrier::{Root, Standing, dress},
    neighbourhood::Namespace,
    seal::Whose,
    services::Hold,
};
use crate::framework::{
    apply::Applier,
    children::{Children, dynamic_api},
    error::Error,
};

/// How long is waited before a container is replaced again that somebody has changed.
const FIGHT: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_mins(10));

/// After so much peace the next time is the first again.
const PEACE: Duration = Duration::from_mins(30);

/// What is known of the workloads of a namespace.
#[derive(Default)]
pub(crate) struct Seen {
    /// What was replaced, if it is known for certain.
    pub(crate) replaced: BTreeMap<TargetRef, Replaced>,
    /// Pods that have a stand-in, with the labels that they have without it.
    pub(crate) stood_in: BTreeMap<TargetRef, BTreeMap<String, String>>,
}

/// What is wished in the place of a container.
pub(crate) struct Wish<'a> {
    /// The carrier's plan.
    pub(crate) root: &'a Root,
    /// What its pods are asked for.
    pub(crate) version: i64,
    /// The carrier.
    pub(crate) swap: &'a Swap,
    /// Its image.
    pub(crate) image: &'a str,
}

#[derive(Default)]
struct Memory {
    /// The version that the last write made.
    written: Option<u64>,
    failures: u32,
    not_before: Option<Instant>,
    /// Since when its container is replaced, as far as this process knows.
    replaced: Option<Instant>,
}

/// Replaces containers and puts them back.
pub(crate) struct Workloads {
    client: Client,
    manager: &'static str,
    applier: Applier,
    /// By uid.
    memory: Mutex<HashMap<String, Memory>>,
}

impl Workloads {
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        let applier = Applier::new(client.clone(), manager);
        Self { client, manager, applier, memory: Mutex::default() }
    }

    /// Looks at the workloads of a namespace.
    pub(crate) fn see(keys: &Keys, near: &Namespace) -> Seen {
        let mut seen = Seen::default();
        for one in near.deployments.all() {
            let target = of(TargetKind::Deployment, &*one);
            seen.replaced
                .extend(proved(keys, "Deployment", &one.metadata).map(|replaced| (target, replaced)));
        }
        for one in near.stateful_sets.all() {
            let target = of(TargetKind::StatefulSet, &*one);
            seen.replaced
                .extend(proved(keys, "StatefulSet", &one.metadata).map(|replaced| (target, replaced)));
        }
        for one in near.pods.all() {
            let target = of(TargetKind::Pod, &*one);
            let before = proved(keys, "Pod", &one.metadata);
            seen.stood_in.extend(before.map(|before| {
                let labels = stand_in::own_labels(one.labels(), before, &carrier_name(&target));
                (target, labels)
            }));
        }
        seen
    }

    /// Brings a target nearer to what is wished, and says where it stands, and whether its pods do what is asked for.
    ///
    /// # Errors
    /// When the API server does not let it be changed.
    pub(crate) async fn bring(
        &self,
        keys: &Keys,
        near: &Namespace,
        target: &TargetRef,
        wish: Option<&Wish<'_>>,
        children: &Children,
    ) -> Result<(Hold, bool), Error> {
        if target.kind == TargetKind::Pod {
            return self.bring_pod(keys, near, target, wish, children).await;
        }
        let held = Held::find(near, target);
        let Some(template) = held.as_ref().and_then(Held::template) else { return Ok((Hold::Free, false)) };
        let uid = template.metadata.uid.clone().unwrap_or_default();
        if self.is_behind(&uid, template.metadata.resource_version.as_deref()) {
            let moving = match wish {
                Some(_) => Hold::Taking("its template is being changed".to_owned()),
                None => Hold::Freeing,
            };
            return Ok((moving, false));
        }
        let proof: Option<Replaced> = proved(keys, target.kind.kind(), template.metadata);
        if wish.is_none() {
            self.forget_fight(&uid);
        }
        match (wish, proof) {
            // With a wish, too: what is there now must never be taken for what was there before.
            (_, None) if template.containers().iter().any(is_carrier) => Ok((Hold::Lost, false)),
            (Some(wish), proof) => self.replace(keys, near, target, &template, wish, proof).await,
            (None, Some(replaced)) => {
                self.restore(target, &template, &replaced).await?;
                Ok((Hold::Freeing, false))
            }
            // The pods of the carrier are let go one after another; those that can't be replaced are not waited for, nor whatever
            // else its pods lack.
            (None, None) if template.is_stuck => Ok((Hold::Free, false)),
            (None, None) => {
                let pods = near.pods.all();
                let is_left = pods.iter().any(|pod| {
                    template.has_made(pod) && runs_carrier(pod) && pod.metadata.deletion_timestamp.is_none()
                });
                Ok((if is_left || !template.is_seen { Hold::Freeing } else { Hold::Free }, false))
            }
        }
    }

    async fn replace(
        &self,
        keys: &Keys,
        near: &Namespace,
        target: &TargetRef,
        template: &Template<'_>,
        wish: &Wish<'_>,
        proof: Option<Replaced>,
    ) -> Result<(Hold, bool), Error> {
        let name = carrier_name(target);
        let Some(live) = template.containers().iter().find(|one| one.name == wish.swap.original.name) else {
            return Ok((Hold::Taking("the container is not there".to_owned()), false));
        };
        let namespace = wish.root.namespace();
        let (worn, volumes) = dress(&namespace, &name, wish.swap, wish.image);
        let wanted = Replaced::new(&wish.swap.original, &worn);
        let uid = template.metadata.uid.clone().unwrap_or_default();
        match proof {
            // What is in place stays: what it carries comes with its plan, and an operator's upgrade is no reason to replace the
            // pods of others.
            Some(replaced) if replaced.is_in_place(live) => {
                lock(&self.memory).entry(uid).or_default().keep();
                let pods = near.pods.all();
                let own =
                    pods.iter().map(|pod| &**pod).filter(|pod| template.has_made(pod) && runs_carrier(pod));
                let standing = Standing::of(&wish.root.plan, wish.version, own);
                if template.is_rolling || standing.ready.is_empty() {
                    let why =
                        standing.trouble.clone().unwrap_or_else(|| "its pods are being replaced".to_owned());
                    return Ok((Hold::Taking(why), standing.is_current));
                }
                Ok((Hold::Taken, standing.is_current))
            }
            // Who sets the container back may take our annotation away with it.
            proof if (proof.is_some() || self.was_replaced(&uid)) && !self.may_fight(&uid) => {
                Ok((Hold::TakenBack("its owner".to_owned()), false))
            }
            _ => {
                let Some(sealed) = keys.sealer.seal(Whose { kind: target.kind.kind(), uid: &uid }, &wanted)
                else {
                    return Ok((Hold::Taking("no proof can be made".to_owned()), false));
                };
                let steps = template.change(&worn, volumes, Some(&sealed));
                if self.patch(target, template, steps).await? {
                    lock(&self.memory).entry(uid).or_default().replaced = Some(Instant::now());
                }
                Ok((Hold::Taking("its pods are being replaced".to_owned()), false))
            }
        }
    }

    /// Puts back what was there, and what its owner has changed since; the answer has to have all of it.
    async fn restore(
        &self,
        target: &TargetRef,
        template: &Template<'_>,
        replaced: &Replaced,
    ) -> Result<(), Error> {
        let containers = template.containers();
        let named = containers.iter().find(|one| one.name == replaced.container);
        // Its owner may have given it another name: it mounts what is taken away.
        let Some(live) = named.or_else(|| containers.iter().find(|one| is_carrier(one))) else {
            // Its owner has removed the container: what is left of us goes.
            let steps = template.change(&Container::default(), Vec::new(), None);
            return self.patch(target, template, steps).await.map(drop);
        };
        let original = replaced.undone(live);
        let steps = template.change(&original, Vec::new(), None);
        self.patch(target, template, steps).await.map(drop)
    }

    fn was_replaced(&self, uid: &str) -> bool {
        lock(&self.memory).get(uid).is_some_and(|memory| memory.replaced.is_some())
    }

    /// Nobody is fought with over what is not wished any more.
    fn forget_fight(&self, uid: &str) {
        if let Some(memory) = lock(&self.memory).get_mut(uid) {
            *memory = Memory { written: memory.written, ..Memory::default() };
        }
    }

    /// Forgets those that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.memory).retain(|uid, _| is_there(uid));
    }

    /// Whether it was left alone for long enough; the first time it was not.
    fn may_fight(&self, uid: &str) -> bool {
        let mut memory = lock(&self.memory);
        let memory = memory.entry(uid.to_owned()).or_default();
        match memory.not_before {
            Some(time) if time <= Instant::now() => {
                memory.not_before = None;
                true
            }
            Some(_) => false,
            None => {
                memory.failures = memory.failures.saturating_add(1);
                memory.not_before = Some(Instant::now() + FIGHT.delay(memory.failures));
                false
            }
        }
    }

    fn is_behind(&self, uid: &str, version: Option<&str>) -> bool {
        let seen = version.and_then(|version| version.parse::<u64>().ok());
        let memory = lock(&self.memory);
        let written = memory.get(uid).and_then(|memory| memory.written);
        written.zip(seen).is_some_and(|(written, seen)| seen < written)
    }

    /// Whether it was changed.
    async fn patch(
        &self,
        target: &TargetRef,
        template: &Template<'_>,
        steps: Vec<Value>,
    ) -> Result<bool, Error> {
        let namespace = template.metadata.namespace.clone().unwrap_or_default();
        let api = dynamic_api(self.client.clone(), &namespace, &template.resource);
        let changed = self.send(&api, &target.name, template.metadata, steps).await;
        let changed = changed.map_err(|source| Error::ChangeTarget {
            kind: target.kind.kind(),
            name: format!("{namespace}/{}", target.name),
            source,
        })?;
        let is_changed = changed.is_some();
        if let Some((uid, version)) = changed {
            lock(&self.memory).entry(uid).or_default().written = Some(version);
        }
        Ok(is_changed)
    }

    /// The uid and version of what was changed; none if it is another by now, or gone.
    async fn send(
        &self,
        api: &kube::Api<DynamicObject>,
        name: &str,
        seen: &ObjectMeta,
        steps: Vec<Value>,
    ) -> Result<Option<(String, u64)>, kube::Error> {
        let patch = serde_json::from_value(Value::Array(steps)).expect("a list of well-formed operations");
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        match api.patch(name, &params, &Patch::<()>::Json(patch)).await {
            Ok(changed) => {
                let version = changed.resource_version().and_then(|version| version.parse().ok());
                Ok(changed.uid().zip(version))
            }
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(None),
            // The test of what was looked at may have failed: then the watch brings what is there now.
            Err(error) if is_refusal(&error) => match api.get_metadata_opt(name).await {
                Ok(live) if live.as_ref().is_none_or(|live| unchanged(&live.metadata) != unchanged(seen)) => {
                    Ok(None)
                }
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// When a workload should be looked at again though nothing changes; as [`super::services::Services::again`].
    pub(crate) fn again(&self, began: Instant) -> Option<Duration> {
        let memory = lock(&self.memory);
        let times = memory.values().filter_map(|memory| memory.not_before).filter(|time| *time > began);
        times.min().map(|time| time.saturating_duration_since(Instant::now()))
    }
}

impl Memory {
    /// It is in its place; after a long time of peace is counted from the beginning.
    fn keep(&mut self) {
        self.not_before = None;
        if self.replaced.get_or_insert_with(Instant::now).elapsed() > PEACE {
            self.failures = 0;
        }
    }
}

/// Whether the API server understood a change and does not want it: since what was tested is not so, or for good.
pub(super) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if answer.code == 422)
}

/// Makes room for annotations where there are none; those that somebody has written meanwhile are not replaced.
pub(super) fn begun_annotations(metadata: &ObjectMeta) -> Vec<Value> {
    if metadata.annotations.is_some() {
        return Vec::new();
    }
    let path = "/metadata/annotations";
    vec![json!({"op": "test", "path": path, "value": null}), json!({"op": "add", "path": path, "value": {}})]
}

/// What was replaced of an object, if that is proved.
fn proved<T: serde::de::DeserializeOwned>(keys: &Keys, kind: &str, metadata: &ObjectMeta) -> Option<T> {
    let text = metadata.annotations.as_ref()?.get(names::ANNOTATION_ORIGINAL)?;
    keys.sealer.open(Whose { kind, uid: metadata.uid.as_deref()? }, text)
}

/// Whether a container is a carrier in the place of another.
fn is_carrier(container: &Container) -> bool {
    container.env.iter().flatten().any(|variable| variable.name.starts_with(ENV_PREFIX))
}

fn runs_carrier(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|spec| &spec.containers).any(is_carrier)
}

/// Volumes of a pod without those of a carrier.
fn own_volumes(volumes: Option<&Vec<Volume>>) -> Vec<Volume> {
    let volumes = volumes.into_iter().flatten();
    volumes.filter(|volume| !volume.name.starts_with(VOLUME_PREFIX)).cloned().collect()
}

fn annotation_path() -> String {
    format!("/metadata/annotations/{}", names::ANNOTATION_ORIGINAL.replace('/', "~1"))
}

/// That it is what was looked at.
fn unchanged(metadata: &ObjectMeta) -> Vec<Value> {
    vec![
        json!({"op": "test", "path": "/metadata/uid", "value": metadata.uid}),
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version}),
    ]
}

#[cfg(test)]
mod tests;
