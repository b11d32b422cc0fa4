//! A pod that nobody made can't be changed: its command and its arguments are fixed. So it gets a stand-in, with its labels and all
//! but the container that is replaced; once that is ready, the pod's own labels are changed so that no Service finds it, and what
//! they were is written beside them.

use std::collections::BTreeMap;

use causeway_translate::intercept::{TargetRef, front::OWNER_KIND, names::taken, swap::carrier_name};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::{Wish, Workloads, annotation_path, begun_annotations, own_volumes, proved, unchanged};
use crate::{
    framework::{apply::Wanted, children::Children, error::Error, kinds::POD},
    intercepts::{
        authority::Keys,
        carrier::{Standing, dress},
        neighbourhood::Namespace,
        seal::Whose,
        services::Hold,
        stowaway::is_ready,
    },
};

type Labels = BTreeMap<String, String>;

/// Volumes that the cluster gives every pod by itself.
const GIVEN: &str = "kube-api-access-";

impl Workloads {
    pub(super) async fn bring_pod(
        &self,
        keys: &Keys,
        near: &Namespace,
        target: &TargetRef,
        wish: Option<&Wish<'_>>,
        children: &Children,
    ) -> Result<(Hold, bool), Error> {
        let pods = near.pods.all();
        let Some(pod) = pods.iter().find(|pod| pod.name_any() == target.name) else {
            return Ok((Hold::Free, false));
        };
        let uid = pod.uid().unwrap_or_default();
        if self.is_behind(&uid, pod.metadata.resource_version.as_deref()) {
            return Ok((
                if wish.is_some() {
                    Hold::Taking("its labels are being changed".to_owned())
                } else {
                    Hold::Freeing
                },
                false,
            ));
        }
        let before: Option<Labels> = proved(keys, "Pod", &pod.metadata);
        let name = carrier_name(target);
        let hidden = |labels: &Labels| taken(labels, &name);
        let labels = pod.labels().clone();
        let is_hidden = before.as_ref().is_some_and(|before| labels == hidden(before));
        // With a wish, too: the labels that hide it must never be taken for those that it had before.
        if before.is_none() && !labels.is_empty() && labels == hidden(&labels) {
            return Ok((Hold::Lost, false));
        }
        let Some(wish) = wish else {
            return match before {
                Some(before) if is_hidden => {
                    self.relabel(pod, &before, None).await?;
                    Ok((Hold::Freeing, false))
                }
                // Somebody has set them already.
                Some(_) => {
                    self.relabel(pod, &labels, None).await?;
                    Ok((Hold::Freeing, false))
                }
                None => Ok((Hold::Free, false)),
            };
        };
        let original = before.map_or_else(|| labels.clone(), |before| own_labels(&labels, before, &name));
        let made = stand_in(pod, &original, wish, &name);
        let wanted = Wanted::new(POD, &made);
        self.applier.found(&wish.root.owner(), &wanted, children).await.map_err(|source| Error::Objects {
            failed: 1,
            total: 1,
            source: Box::new(source),
        })?;
        let own = pods.iter().map(|pod| &**pod).filter(|pod| pod.name_any() == name);
        let standing = Standing::of(&wish.root.plan, wish.version, own.clone());
        if !standing.is_current || !own.clone().any(is_ready) {
            let why = standing.trouble.clone().unwrap_or_else(|| "its stand-in starts".to_owned());
            return Ok((Hold::Taking(why), false));
        }
        if is_hidden || labels.is_empty() {
            return Ok((Hold::Taken, standing.is_current));
        }
        let sealed = keys.sealer.seal(Whose { kind: "Pod", uid: &uid }, &original);
        self.relabel(pod, &hidden(&original), sealed.as_deref()).await?;
        Ok((Hold::Taking("Services find the stand-in in a moment".to_owned()), standing.is_current))
    }

    async fn relabel(&self, pod: &Pod, labels: &Labels, sealed: Option<&str>) -> Result<(), Error> {
        let mut steps = unchanged(&pod.metadata);
        steps.push(json!({"op": "add", "path": "/metadata/labels", "value": labels}));
        match sealed {
            Some(sealed) => {
                steps.extend(begun_annotations(&pod.metadata));
                steps.push(json!({"op": "add", "path": annotation_path(), "value": sealed}));
            }
            None => steps.push(json!({"op": "remove", "path": annotation_path()})),
        }
        let namespace = pod.namespace().unwrap_or_default();
        let api = Api::namespaced_with(self.client.clone(), &namespace, &POD.resource());
        let changed = self.send(&api, &pod.name_any(), &pod.metadata, steps).await;
        let changed = changed.map_err(|source| Error::ChangeTarget {
            kind: "Pod",
            name: format!("{namespace}/{}", pod.name_any()),
            source,
        })?;
        if let Some((uid, version)) = changed {
            causeway_base::lock::lock(&self.memory).entry(uid).or_default().written = Some(version);
        }
        Ok(())
    }
}

/// The labels of a pod without us: those that it had before, unless somebody has set them already.
pub(super) fn own_labels(labels: &Labels, before: Labels, name: &str) -> Labels {
    if *labels == taken(&before, name) { before } else { labels.clone() }
}

/// The pod once more, with a carrier in the place of a container.
fn stand_in(pod: &Pod, labels: &Labels, wish: &Wish<'_>, name: &str) -> Pod {
    let namespace = pod.namespace().unwrap_or_default();
    let (worn, volumes) = dress(&namespace, name, wish.swap, wish.image);
    let mut spec = pod.spec.clone().unwrap_or_default();
    let is_given = |volume: &str| volume.starts_with(GIVEN);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(mounts) = &mut container.volume_mounts {
            mounts.retain(|mount| !is_given(&mount.name));
        }
    }
    for container in &mut spec.containers {
        if container.name == worn.name {
            let mut worn = worn.clone();
            if let Some(mounts) = &mut worn.volume_mounts {
                mounts.retain(|mount| !is_given(&mount.name));
            }
            *container = worn;
        }
    }
    let mut kept = own_volumes(spec.volumes.as_ref());
    kept.retain(|volume| !is_given(&volume.name));
    kept.extend(volumes);
    spec.volumes = Some(kept);
    // The scheduler finds it a place of its own.
    spec.node_name = None;
    let mut labels = labels.clone();
    labels.insert(causeway_api::names::LABEL_OWNER_KIND.to_owned(), OWNER_KIND.to_owned());
    labels.insert(causeway_api::names::LABEL_OWNER_NAME.to_owned(), name.to_owned());
    let annotations: BTreeMap<String, String> = pod
        .annotations()
        .iter()
        .filter(|(key, _)| {
            *key != causeway_api::names::ANNOTATION_ORIGINAL && !key.starts_with("kubectl.kubernetes.io/")
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations).filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}
