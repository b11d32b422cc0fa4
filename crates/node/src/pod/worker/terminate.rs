//! A pod that should end: its containers get their grace period, and only then does the object go.

use std::time::Duration;

use causeway_base::backoff::spread;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};
use tokio::time::Instant;

use super::{Timer, Worker};
use crate::{
    pod::{
        probe::check::Check,
        stop,
        tracked::{Role, Stop, TrackedContainer},
    },
    workload::is_code,
};

/// What processes get when their pod was removed by force.
const FORCED_GRACE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_secs(1);

impl Worker {
    pub(super) async fn terminate(&mut self, timer: &mut Timer) {
        let deadline = Instant::now() + self.time_left();
        for index in 0..self.containers.len() {
            // Sidecars serve the others, so they go last.
            let waits = self.containers.get(index).is_some_and(|tracked| tracked.role == Role::Sidecar)
                && self.others_run();
            if waits || !self.containers.get(index).is_some_and(TrackedContainer::is_running) {
                continue;
            }
            if self.containers.get(index).is_some_and(|tracked| tracked.stop.is_none()) {
                let name = self.containers.get(index).map(|tracked| tracked.name.clone()).unwrap_or_default();
                self.event("Normal", index, "Killing", &format!("Stopping container {name}")).await;
            }
            self.stop(index, deadline);
        }
        if self.gone {
            return;
        }
        let over = !self.containers.iter().any(TrackedContainer::is_running);
        self.report(over, timer).await;
        if over && !self.released {
            // The next pod with its addresses may come as soon as the object is gone.
            self.detach().await;
            self.release(timer).await;
        }
    }

    fn others_run(&self) -> bool {
        self.containers.iter().any(|tracked| tracked.role != Role::Sidecar && tracked.is_running())
    }

    /// How much of the grace period is left.
    fn time_left(&self) -> Duration {
        if self.gone {
            return FORCED_GRACE.min(self.grace());
        }
        let grace = self.pod.metadata.deletion_grace_period_seconds.unwrap_or(0).max(0);
        let until = self
            .pod
            .metadata
            .deletion_timestamp
            .as_ref()
            .map_or(0, |time| (time.0.as_millisecond() - Timestamp::now().as_millisecond()).max(0));
        Duration::from_millis((grace * 1000).min(until) as u64)
    }

    /// Removes the object, now that nothing of it runs.
    async fn release(&mut self, timer: &mut Timer) {
        let pods: Api<Pod> = Api::namespaced(self.shared.client.clone(), &self.dir.namespace);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: Some(self.dir.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        match pods.delete(&self.dir.name, &params).await {
            Ok(_) => self.released = true,
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => self.released = true,
            Err(error) => {
                tracing::warn!(
                    pod = self.dir.name,
                    namespace = self.dir.namespace,
                    error = &error as &dyn std::error::Error,
                    "cannot remove a pod"
                );
                timer.after(spread(RETRY));
            }
        }
    }

    /// Begins to stop a container, or shortens the stop that is under way.
    pub(super) fn stop(&mut self, index: usize, deadline: Instant) {
        let container = self.container(index).cloned();
        let mounts = container.as_ref().map(|container| self.mounts(container)).unwrap_or_default();
        let recorder = self.shared.recorder.clone();
        let reference = self.reference(index);
        let Some(tracked) = self.containers.get_mut(index).filter(|tracked| tracked.is_running()) else {
            return;
        };
        let Some(run) = &tracked.run else { return };
        let repeated = match &tracked.stop {
            // Deadlines of one grace period are computed again at each look; only a shorter period counts.
            Some(stop) if deadline + Duration::from_millis(500) >= stop.deadline => return,
            Some(stop) => {
                stop.task.abort();
                true
            }
            None => false,
        };
        let hook = container.as_ref().and_then(|container| {
            let hook = container.lifecycle.as_ref()?.pre_stop.as_ref()?;
            Some(Check::of_hook(hook, &self.shared.target(self.address, container, run, &mounts, &self.dir)))
        });
        // A hook runs once, however often the pod is told to end.
        let hook = hook.filter(|_| !repeated);
        let name = tracked.name.clone();
        let failed = async move |message: String| {
            let text = format!("PreStopHook failed for container {name}: {message}");
            recorder.record("Warning", reference, "FailedPreStopHook", &text).await;
        };
        let task = tokio::spawn(stop::run(run.instance.clone(), hook, deadline, failed));
        tracked.stop = Some(Stop { deadline, task: task.abort_handle() });
    }
}
