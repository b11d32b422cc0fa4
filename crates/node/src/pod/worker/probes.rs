//! Probes and hooks of a container that runs: start them, and act on what they say.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::time::Instant;

use super::{Wake, Worker};
use crate::layout::PodDir;
use crate::pod::{
    mounts::Mounts,
    probe::{
        self, Kind, Report,
        check::{Check, Target},
    },
    tracked::Run,
};

impl Worker {
    pub(super) async fn apply_probe(&mut self, index: usize, number: i32, report: Report) {
        let Some(tracked) = self.containers.get_mut(index) else {
            return;
        };
        if tracked.run.as_ref().map(|run| run.number) != Some(number) || !tracked.is_running() {
            return;
        }
        let name = tracked.name.clone();
        match (report.kind, report.verdict) {
            (Kind::Startup, Some(true)) => {
                tracked.started = true;
                self.start_probes(index);
            }
            (Kind::Readiness, Some(ready)) => tracked.ready = ready,
            _ => {}
        }
        if let Some(failure) = &report.failure {
            let text = format!("{} probe failed: {failure}", report.kind.as_str());
            self.event("Warning", index, "Unhealthy", &text).await;
        }
        if report.verdict == Some(false)
            && report.kind != Kind::Readiness
            && self.containers.get(index).is_some_and(|tracked| tracked.stop.is_none())
        {
            let word = report.kind.as_str().to_lowercase();
            let own = self
                .container(index)
                .and_then(|container| report.kind.of(container)?.termination_grace_period_seconds);
            let grace =
                own.map_or_else(|| self.grace(), |seconds| Duration::from_secs(seconds.max(0) as u64));
            let text = format!("Container {name} failed {word} probe, will be restarted");
            self.event("Normal", index, "Killing", &text).await;
            self.stop(index, Instant::now() + grace);
        }
    }

    /// Starts the probes that are due: the startup probe first, the others once it passed.
    pub(super) fn start_probes(&mut self, index: usize) {
        let Some(container) = self.container(index).cloned() else {
            return;
        };
        let has_startup = container.startup_probe.is_some();
        let Some(tracked) = self.containers.get_mut(index) else {
            return;
        };
        if !has_startup {
            tracked.started = true;
        }
        if container.readiness_probe.is_none() && tracked.started {
            tracked.ready = true;
        }
        let kinds: &[Kind] =
            if tracked.started { &[Kind::Liveness, Kind::Readiness] } else { &[Kind::Startup] };
        for kind in kinds {
            let Some(probe) = kind.of(&container).cloned() else {
                continue;
            };
            self.start_probe(index, *kind, &container, probe);
        }
    }

    fn start_probe(&mut self, index: usize, kind: Kind, container: &Container, probe: Probe) {
        let mounts = self.mounts(container);
        let wake_tx = self.wake_tx.clone();
        let Some(tracked) = self.containers.get_mut(index) else {
            return;
        };
        let Some(run) = &tracked.run else { return };
        let number = run.number;
        let target = self.shared.target(self.address, container, run, &mounts, &self.dir);
        let check = Check::of_probe(&probe, &target);
        let wrap = move |report| Wake::Probed { container: index, number, report };
        let task = tokio::spawn(probe::run(kind, probe, check, run.instance.started_at, wake_tx, wrap));
        tracked.tasks.push(task.abort_handle());
    }

    /// Runs the postStart hook beside the container; when it fails the container is stopped.
    pub(super) fn start_hook(&mut self, index: usize, container: &Container) {
        let Some(hook) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref())
        else {
            return;
        };
        let mounts = self.mounts(container);
        let wake_tx = self.wake_tx.clone();
        let Some(tracked) = self.containers.get_mut(index) else {
            return;
        };
        let Some(run) = &tracked.run else { return };
        let number = run.number;
        let check =
            Check::of_hook(hook, &self.shared.target(self.address, container, run, &mounts, &self.dir));
        let task = tokio::spawn(async move {
            let result = match check {
                Ok(check) => check.run().await,
                Err(message) => Err(message),
            };
            if let Err(message) = result {
                let _ = wake_tx.send(Wake::HookFailed { container: index, number, message }).await;
            }
        });
        tracked.tasks.push(task.abort_handle());
    }

    pub(super) async fn hook_failed(&mut self, index: usize, number: i32, message: &str) {
        let Some(tracked) = self.containers.get(index).filter(|tracked| tracked.is_running()) else {
            return;
        };
        if tracked.run.as_ref().map(|run| run.number) != Some(number) {
            return;
        }
        let text = format!("PostStartHook failed for container {}: {message}", tracked.name);
        self.event("Warning", index, "FailedPostStartHook", &text).await;
        self.stop(index, Instant::now() + self.grace());
    }
}

impl crate::pod::Shared {
    /// What checks of a running container are resolved against.
    pub(super) fn target<'a>(
        &'a self,
        address: IpAddr,
        container: &'a Container,
        run: &'a Run,
        mounts: &'a Mounts,
        dir: &'a PodDir,
    ) -> Target<'a> {
        Target { container, launch: &run.instance.launch, mounts, address, config: &self.config, dir }
    }
}
