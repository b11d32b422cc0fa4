//! The life of one pod: a single task that looks at the whole pod after every change and takes the next step.
//! It keeps nothing that the API and the disk do not have, so a crash of the node at any point is just another start.

mod drive;
mod network;
mod probes;
mod report;
mod terminate;

use std::{error::Error, io, net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use kube::ResourceExt;
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::network::Networks;
use super::{
    Shared,
    probe::Report,
    sources::{SourceRef, references},
    token::Tokens,
    tracked::{Role, TrackedContainer},
};
use crate::{config::OnShutdown, layout::PodDir, pod::mounts::Mounts, process::Exit};

/// How long a container may take to end after its grace period.
const KILL_PATIENCE: Duration = Duration::from_secs(7);

/// What the API says about the pod.
#[derive(Clone, Debug)]
pub(super) enum Update {
    Present(Arc<Pod>),
    Gone,
}

/// What happened to a container.
#[derive(Debug)]
enum Wake {
    Exited { container: usize, number: i32, exit: Exit },
    Probed { container: usize, number: i32, report: Report },
    HookFailed { container: usize, number: i32, message: String },
}

/// The earliest moment at which something is due.
#[derive(Debug, Default)]
struct Timer(Option<Instant>);

impl Timer {
    fn at(&mut self, time: Instant) {
        self.0 = Some(self.0.map_or(time, |earlier| earlier.min(time)));
    }

    fn after(&mut self, delay: Duration) {
        self.at(Instant::now() + delay);
    }
}

#[derive(Debug)]
struct Volumes {
    ready: bool,
    /// A source changed, or none was read yet.
    stale: bool,
    retry_at: Option<Instant>,
    failures: u32,
}

pub(super) struct Worker {
    shared: Arc<Shared>,
    dir: PodDir,
    /// The one of this machine that the pod has.
    own_address: IpAddr,
    /// Where the pod is reached: there, or where the runtime has put its containers.
    address: IpAddr,
    /// As the API has it.
    pod: Arc<Pod>,
    /// With the volume for API access added, once the ServiceAccount was looked up.
    effective: Option<Pod>,
    gone: bool,
    /// Init containers, then the others, in the order of the spec.
    containers: Vec<TrackedContainer>,
    tokens: Tokens,
    volumes: Volumes,
    networks: Networks,
    wake_tx: mpsc::Sender<Wake>,
    wake_rx: mpsc::Receiver<Wake>,
    reported: Option<PodStatus>,
    start_time: Timestamp,
    /// Why the pod cannot run here: reason and message.
    not_runnable: Option<(String, String)>,
    /// The pod was deleted from the API, or asked to be.
    released: bool,
}

impl Worker {
    /// A worker that knows what disk and API remember, with running processes adopted.
    pub(super) fn load(shared: Arc<Shared>, pod: Arc<Pod>) -> io::Result<Self> {
        let (namespace, name, uid) =
            (pod.namespace().unwrap_or_default(), pod.name_any(), pod.uid().unwrap_or_default());
        let dir = PodDir::new(&shared.config.data_dir, &namespace, &name, &uid);
        dir.create()?;
        let own_address = address_of(&shared, &dir, &pod)?;
        let (wake_tx, wake_rx) = mpsc::channel(64);
        let mut containers = Vec::new();
        if let Some(spec) = &pod.spec {
            for container in spec.init_containers.iter().flatten() {
                containers.push(TrackedContainer::load(
                    &shared.config,
                    &dir,
                    &pod,
                    &container.name,
                    Role::of_init(container),
                )?);
            }
            for container in &spec.containers {
                containers.push(TrackedContainer::load(
                    &shared.config,
                    &dir,
                    &pod,
                    &container.name,
                    Role::Main,
                )?);
            }
        }
        let mut worker = Self {
            shared,
            dir,
            own_address,
            address: own_address,
            reported: pod.status.clone(),
            pod,
            effective: None,
            gone: false,
            containers,
            tokens: Tokens::default(),
            volumes: Volumes { ready: false, stale: true, retry_at: None, failures: 0 },
            networks: Networks::default(),
            wake_tx,
            wake_rx,
            start_time: Timestamp::now(),
            not_runnable: None,
            released: false,
        };
        worker.address = worker.address_of_running().unwrap_or(own_address);
        for index in 0..worker.containers.len() {
            worker.watch_exit(index);
        }
        Ok(worker)
    }

    /// A container that runs has an address of its own, given by its runtime.
    fn address_of_running(&self) -> Option<IpAddr> {
        let mut running = self.containers.iter().filter(|tracked| tracked.is_running());
        running.find_map(|tracked| tracked.run.as_ref()?.instance.address())
    }

    /// Runs until the pod is gone, or the node stops.
    pub(super) async fn run(
        mut self,
        mut update_rx: watch::Receiver<Update>,
        mut changes: broadcast::Receiver<SourceRef>,
        shutdown: CancellationToken,
    ) {
        let mut adopted = false;
        loop {
            let timer = self.sync(&mut adopted).await;
            if self.gone && !self.containers.iter().any(TrackedContainer::is_running) {
                self.detach().await;
                if let Err(error) = self.dir.remove() {
                    tracing::warn!(path = %self.dir.path().display(), error = &error as &dyn Error, "cannot remove a pod's directory");
                }
                self.shared.addresses.release(&self.dir.uid);
                if self.containers.iter().any(|tracked| tracked.used_runtime) {
                    self.shared.containers.remove_pod(&self.dir.uid).await;
                }
                return;
            }
            let due = async {
                match timer.0 {
                    Some(time) => sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Nothing more is said of a pod that is gone, but its processes have to end before its worker does.
                changed = update_rx.changed(), if !self.gone => {
                    if changed.is_err() { return; }
                    let update = update_rx.borrow_and_update().clone();
                    self.apply_update(update);
                }
                Some(wake) = self.wake_rx.recv() => {
                    self.apply_wake(wake).await;
                    while let Ok(wake) = self.wake_rx.try_recv() {
                        self.apply_wake(wake).await;
                    }
                }
                change = changes.recv() => self.apply_change(change.ok()),
                () = due => {}
                () = shutdown.cancelled() => return self.shut_down().await,
            }
        }
    }

    async fn sync(&mut self, adopted: &mut bool) -> Timer {
        let mut timer = Timer::default();
        if !std::mem::replace(adopted, true) {
            for index in 0..self.containers.len() {
                if self.containers.get(index).is_some_and(TrackedContainer::is_running) {
                    self.start_probes(index);
                }
            }
        }
        if self.gone || self.pod.metadata.deletion_timestamp.is_some() {
            self.terminate(&mut timer).await;
        } else {
            self.drive(&mut timer).await;
            self.report(false, &mut timer).await;
        }
        timer
    }

    fn apply_update(&mut self, update: Update) {
        match update {
            Update::Present(pod) => {
                if pod.spec != self.pod.spec {
                    self.effective = None;
                }
                if pod.metadata.labels != self.pod.metadata.labels
                    || pod.metadata.annotations != self.pod.metadata.annotations
                {
                    self.effective = None;
                    self.volumes.stale = true;
                }
                self.pod = pod;
            }
            Update::Gone => self.gone = true,
        }
    }

    /// `None` stands for changes that were missed.
    fn apply_change(&mut self, change: Option<SourceRef>) {
        let concerned = match change {
            Some(change) => change.namespace == self.dir.namespace && references(&self.pod).contains(&change),
            None => true,
        };
        if !concerned {
            return;
        }
        self.volumes.stale = true;
        self.volumes.retry_at = None;
        for tracked in &mut self.containers {
            if tracked.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CreateContainerConfigError")
            {
                tracked.retry_at = None;
            }
        }
    }

    async fn apply_wake(&mut self, wake: Wake) {
        match wake {
            Wake::Exited { container, number, exit } => {
                let Some(tracked) = self.containers.get_mut(container) else {
                    return;
                };
                if tracked.run.as_ref().map(|run| run.number) != Some(number) {
                    return;
                }
                let code = exit.code;
                let delay = tracked.ended(exit);
                if tracked.role.restarts(&self.pod, code) {
                    tracked.retry_at = Some(Instant::now() + delay);
                    if !delay.is_zero() && self.pod.metadata.deletion_timestamp.is_none() {
                        let message = format!(
                            "back-off {}s restarting failed container={} pod={}_{}({})",
                            delay.as_secs(),
                            tracked.name,
                            self.dir.name,
                            self.dir.namespace,
                            self.dir.uid
                        );
                        tracked.wait("CrashLoopBackOff", message);
                        let _ = std::fs::write(self.dir.waiting_mark(&tracked.name), "");
                        let text = format!(
                            "Back-off restarting failed container {} in pod {}_{}({})",
                            tracked.name, self.dir.name, self.dir.namespace, self.dir.uid
                        );
                        self.event("Warning", container, "BackOff", &text).await;
                    }
                }
            }
            Wake::Probed { container, number, report } => self.apply_probe(container, number, report).await,
            Wake::HookFailed { container, number, message } => {
                self.hook_failed(container, number, &message).await;
            }
        }
    }

    /// The container's spec, with what the node adds.
    fn container(&self, index: usize) -> Option<&Container> {
        let spec = self.effective.as_ref().unwrap_or(&self.pod).spec.as_ref()?;
        spec.init_containers.iter().flatten().chain(&spec.containers).nth(index)
    }

    /// The pod's grace period.
    fn grace(&self) -> Duration {
        let seconds =
            self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        Duration::from_secs(seconds.max(0) as u64)
    }

    /// Waits for the end of the running attempt in a task of its own.
    fn watch_exit(&mut self, index: usize) {
        let wake_tx = self.wake_tx.clone();
        let Some(tracked) = self.containers.get_mut(index).filter(|tracked| tracked.is_running()) else {
            return;
        };
        let Some(run) = &tracked.run else { return };
        let (instance, number) = (run.instance.clone(), run.number);
        let task = tokio::spawn(async move {
            let exit = instance.wait().await;
            let _ = wake_tx.send(Wake::Exited { container: index, number, exit }).await;
        });
        tracked.tasks.push(task.abort_handle());
    }

    /// The mounts of a container that runs; those with `subPathExpr` need its environment and are left to the start.
    fn mounts(&self, container: &Container) -> Mounts {
        let pod = self.effective.as_ref().unwrap_or(&self.pod);
        let sources = super::sources::Sources::default();
        super::launch::mounts(
            &self.dir,
            pod,
            container,
            &sources,
            self.shared.host(self.address),
            &super::env::Environment::default(),
        )
        .unwrap_or_default()
    }

    /// Leaves the pod in the API; what happens to its processes is for the configuration to say.
    async fn shut_down(mut self) {
        if self.shared.config.on_shutdown == OnShutdown::LeavePods {
            return;
        }
        let cut_short = self.shared.config.cut_short.clone();
        let mut deadline = Instant::now() + self.grace();
        self.stop_all(deadline);
        while self.containers.iter().any(TrackedContainer::is_running) {
            tokio::select! {
                wake = self.wake_rx.recv() => {
                    if let Some(Wake::Exited { container, exit, .. }) = wake
                        && let Some(tracked) = self.containers.get_mut(container)
                    {
                        tracked.ended(exit);
                    }
                }
                () = cut_short.cancelled(), if deadline > Instant::now() => {
                    deadline = Instant::now();
                    self.stop_all(deadline);
                }
                () = sleep_until(deadline + KILL_PATIENCE) => {
                    tracing::warn!(pod = %self.dir.path().display(), "a container did not end in time; the next start adopts it");
                    return;
                }
            }
        }
        self.detach().await;
    }

    fn stop_all(&mut self, deadline: Instant) {
        for index in 0..self.containers.len() {
            self.stop(index, deadline);
        }
    }
}

/// The pod's address: one of its own, unless it wants to be in the host's network.
fn address_of(shared: &Shared, dir: &PodDir, pod: &Pod) -> io::Result<IpAddr> {
    if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
        return Ok(shared.config.address);
    }
    let before = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse().ok());
    shared.addresses.assign(dir, before).map(IpAddr::V4)
}
