//! What the worker tells the API: the pod's status when it changed, and events.

use std::time::Duration;

use causeway_base::backoff::spread;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{Timer, Worker};
use crate::{
    pod::{status, tracked::Role},
    workload::is_code,
};

const RETRY: Duration = Duration::from_secs(1);

impl Worker {
    /// Writes the status if it differs from the one that was written last.
    pub(super) async fn report(&mut self, terminated: bool, timer: &mut Timer) {
        let containers: Vec<_> = (0..self.containers.len()).map(|index| self.container(index)).collect();
        let views: Vec<_> = self
            .containers
            .iter()
            .zip(containers)
            .filter_map(|(tracked, container)| Some(tracked.view(&self.dir, container?)))
            .collect();
        let pod = self.as_reported();
        let inputs = status::Inputs {
            pod: &pod,
            address: self.shared.config.address,
            pod_address: self.address,
            start_time: self.start_time,
            not_runnable: self
                .not_runnable
                .as_ref()
                .map(|(reason, message)| (reason.as_str(), message.as_str())),
            terminated,
            now: Timestamp::now(),
        };
        let status = status::build(&inputs, &views);
        if self.reported.as_ref() == Some(&status) {
            return;
        }
        let pods: Api<Pod> = Api::namespaced(self.shared.client.clone(), &self.dir.namespace);
        let patch = json!({"metadata": {"uid": self.dir.uid}, "status": status});
        match pods.patch_status(&self.dir.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => self.reported = Some(status),
            // The pod is gone or another one has its name: the watch will tell.
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => {
                tracing::warn!(
                    pod = self.dir.name,
                    namespace = self.dir.namespace,
                    error = &error as &dyn std::error::Error,
                    "cannot write a pod's status"
                );
                timer.after(spread(RETRY));
            }
        }
    }

    /// The pod with the status that was written last: the API's events about older writes may still be on their way,
    /// and times taken from those would change the status again. Conditions of others are the API's.
    fn as_reported(&self) -> Pod {
        let mut pod = (*self.pod).clone();
        let Some(reported) = &self.reported else {
            return pod;
        };
        let mut status = reported.clone();
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|condition| status::OWN_CONDITIONS.contains(&condition.type_.as_str()));
        let theirs = pod.status.take().and_then(|status| status.conditions).unwrap_or_default();
        let theirs =
            theirs.into_iter().filter(|theirs| !status::OWN_CONDITIONS.contains(&theirs.type_.as_str()));
        conditions.extend(theirs);
        pod.status = Some(status);
        pod
    }

    /// The pod, with the container as field path.
    pub(super) fn reference(&self, index: usize) -> ObjectReference {
        let mut reference = self.pod.object_ref(&());
        reference.field_path = self.containers.get(index).map(|tracked| {
            let list = if tracked.role == Role::Main { "containers" } else { "initContainers" };
            format!("spec.{list}{{{}}}", tracked.name)
        });
        reference
    }

    /// Writes an event about a container.
    pub(super) async fn event(&self, type_: &str, index: usize, reason: &str, message: &str) {
        self.shared.recorder.record(type_, self.reference(index), reason, message).await;
    }
}
