//! One container of a pod as the node keeps it in memory; all of it can be read again from disk after a crash.

use std::{io, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::{task::AbortHandle, time::Instant};

use super::{
    backoff::RestartBackoff,
    status::{View, restart_policy},
};
use crate::{
    config::Config,
    layout::PodDir,
    process::{Exit, Instance, attempt::Attempt},
};

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that keeps running.
    Sidecar,
    Main,
}

impl Role {
    pub(super) fn of_init(container: &Container) -> Self {
        if container.restart_policy.as_deref() == Some("Always") { Self::Sidecar } else { Self::Init }
    }

    /// Whether a container that ended is started again.
    pub(super) fn restarts(self, pod: &Pod, code: i32) -> bool {
        match (self, restart_policy(pod)) {
            (Self::Sidecar, _) | (Self::Main, "Always") => true,
            (Self::Main, "OnFailure") | (Self::Init, "Always" | "OnFailure") => code != 0,
            _ => false,
        }
    }
}

/// Why a container does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub reason: String,
    pub message: String,
}

/// An attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub id: String,
    pub started_at: Timestamp,
    pub exit: Exit,
}

/// The newest attempt.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub instance: Instance,
    pub number: i32,
    pub exit: Option<Exit>,
}

/// A stop under way.
#[derive(Debug)]
pub(super) struct Stop {
    pub deadline: Instant,
    pub task: AbortHandle,
}

/// One container.
#[derive(Debug)]
pub(super) struct TrackedContainer {
    pub name: String,
    pub role: Role,
    pub run: Option<Run>,
    pub last: Option<Ended>,
    pub waiting: Option<Waiting>,
    /// Not before then is it started again.
    pub retry_at: Option<Instant>,
    pub backoff: RestartBackoff,
    pub started: bool,
    pub ready: bool,
    pub stop: Option<Stop>,
    /// Watches the process and runs its probes.
    pub tasks: Vec<AbortHandle>,
    /// A runtime was asked for a container: there may be one, also if it never came to a start.
    pub used_runtime: bool,
    /// The next end was asked for by a change of the spec: no delay, no crash.
    pub replaced: bool,
}

impl TrackedContainer {
    /// A container as disk and API remember it.
    pub(super) fn load(config: &Config, dir: &PodDir, pod: &Pod, name: &str, role: Role) -> io::Result<Self> {
        let mut tracked = Self {
            name: name.to_owned(),
            role,
            run: None,
            last: None,
            waiting: None,
            retry_at: None,
            backoff: RestartBackoff::new(config, 0),
            started: false,
            ready: false,
            stop: None,
            tasks: Vec::new(),
            replaced: false,
            used_runtime: false,
        };
        let mut numbers = Attempt::numbers(&dir.container(name))?;
        numbers.sort_unstable();
        let mut next = || -> io::Result<Option<(i32, Instance)>> {
            // An attempt without a record never came to a start.
            while let Some(number) = numbers.pop() {
                if let Some(instance) = Instance::load(Attempt::at(dir.attempt(name, number)))? {
                    return Ok(Some((number, instance)));
                }
            }
            Ok(None)
        };
        if let Some((number, instance)) = next()? {
            let exit = instance.exit();
            tracked.backoff = RestartBackoff::new(config, number as u32);
            if exit.is_none() {
                // As it was before the node went away, until a probe says otherwise.
                let statuses = pod
                    .status
                    .iter()
                    .flat_map(|s| s.container_statuses.iter().chain(&s.init_container_statuses).flatten());
                let before = statuses.into_iter().find(|status| status.name == name);
                tracked.ready = before.is_some_and(|status| status.ready);
                tracked.started = before.is_some_and(|status| status.started == Some(true));
            }
            tracked.used_runtime = instance.launch.runtime_container.is_some();
            tracked.run = Some(Run { instance, number, exit });
        }
        if let Some((number, instance)) = next()?
            && let Some(exit) = instance.exit()
        {
            tracked.last = Some(Ended { id: id(dir, name, number), started_at: instance.started_at, exit });
        }
        Ok(tracked)
    }

    pub(super) fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.exit.is_none())
    }

    pub(super) fn exit(&self) -> Option<&Exit> {
        self.run.as_ref()?.exit.as_ref()
    }

    /// The number of the next attempt.
    pub(super) fn next_number(&self) -> i32 {
        self.run.as_ref().map_or(0, |run| run.number + 1)
    }

    pub(super) fn wait(&mut self, reason: &str, message: impl Into<String>) {
        self.waiting = Some(Waiting { reason: reason.to_owned(), message: message.into() });
    }

    /// Ends what was started for the process.
    pub(super) fn abort_tasks(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        if let Some(stop) = self.stop.take() {
            stop.task.abort();
        }
    }

    /// Takes note of the end of the newest attempt; the delay until the next one.
    pub(super) fn ended(&mut self, exit: Exit) -> Duration {
        self.abort_tasks();
        (self.started, self.ready) = (false, false);
        let Some(run) = &mut self.run else {
            return Duration::ZERO;
        };
        let ran_for = exit.finished_at.as_millisecond() - run.instance.started_at.as_millisecond();
        run.exit = Some(exit);
        if std::mem::take(&mut self.replaced) {
            return Duration::ZERO;
        }
        self.backoff.after_run(Duration::from_millis(ran_for.max(0) as u64))
    }

    /// What the status shows.
    pub(super) fn view<'a>(&self, dir: &PodDir, container: &'a Container) -> View<'a> {
        let id = id(dir, &self.name, self.run.as_ref().map_or(0, |run| run.number));
        View {
            container,
            role: self.role,
            run: self.run.as_ref().map(|run| {
                let started_at = run.instance.started_at;
                (started_at, run.exit.clone().map(|exit| Ended { id: id.clone(), started_at, exit }))
            }),
            last: self.last.clone(),
            waiting: self.waiting.clone().filter(|_| !self.is_running()),
            ready: self.ready && self.is_running(),
            started: self.started && self.is_running(),
            restarts: self.run.as_ref().map_or(0, |run| run.number),
            id,
        }
    }
}

impl Drop for TrackedContainer {
    fn drop(&mut self) {
        self.abort_tasks();
    }
}

/// The id of one attempt, as the status shows it.
pub(super) fn id(dir: &PodDir, container: &str, number: i32) -> String {
    format!("causeway-process://{}/{container}/{number}", dir.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_policies() {
        let pod = |policy: &str| {
            serde_json::from_value::<Pod>(
                serde_json::json!({"spec": {"restartPolicy": policy, "containers": []}}),
            )
            .unwrap()
        };
        let cases = [
            ("Always", Role::Main, [true, true]),
            ("OnFailure", Role::Main, [false, true]),
            ("Never", Role::Main, [false, false]),
            ("Always", Role::Init, [false, true]),
            ("OnFailure", Role::Init, [false, true]),
            ("Never", Role::Init, [false, false]),
            ("Never", Role::Sidecar, [true, true]),
        ];
        for (policy, role, expected) in cases {
            assert_eq!([0, 1].map(|code| role.restarts(&pod(policy), code)), expected, "{policy} {role:?}");
        }
    }
}
