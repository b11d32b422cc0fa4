//! A pod that should run: volumes, then init containers in order, then the others, each started again as its policy says.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::Duration,
};

use causeway_base::file::create_private_dir;
use causeway_base::{Backoff, backoff::spread, report};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Volume};
use tokio::time::Instant;

use super::{Timer, Worker, network};
use crate::{
    claims::{self, User},
    pod::{
        image::Entrypoint,
        launch::{self, Home, LaunchError},
        runtime::PullPolicy,
        runtime_container,
        sources::Sources,
        token,
        tracked::{Ended, Role, Run, TrackedContainer, id},
        trust::Trust,
        volume::{self, Content, Inputs, VolumeError, atomic, claims::Claims},
    },
    process::{Instance, Launch, attempt::Attempt},
    workload::message,
};

const VOLUME_RETRY: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_mins(1));
const CONFIG_RETRY: Duration = Duration::from_secs(10);
/// Between two looks at an image that is being pulled.
const PULL_LOOK: Duration = Duration::from_millis(500);

/// Where a container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Not started, being stopped, or waiting for its restart.
    Waiting,
    Running,
    /// Ended for good.
    Done {
        success: bool,
    },
}

/// Why volumes are not there.
enum SetupError {
    Volume(VolumeError),
    Io { volume: String, source: io::Error },
    Api(kube::Error),
}

impl SetupError {
    fn message(&self) -> String {
        match self {
            Self::Volume(error) => error.to_string(),
            Self::Io { volume, source } => {
                format!("MountVolume.SetUp failed for volume {volume:?} : {source}")
            }
            Self::Api(error) => {
                format!("cannot read what the pod's volumes are made from: {}", message(error))
            }
        }
    }
}

impl Worker {
    pub(super) async fn drive(&mut self, timer: &mut Timer) {
        if self.is_over() {
            self.detach().await;
            return;
        }
        if !self.is_runnable().await || !self.ensure_networks(timer).await {
            return;
        }
        if !self.ensure_effective(timer).await || !self.ensure_volumes(timer).await {
            return;
        }
        for index in 0..self.containers.len() {
            let Some(role) = self.containers.get(index).map(|tracked| tracked.role) else {
                continue;
            };
            let standing = self.advance(index, timer).await;
            let go_on = match (role, standing) {
                (Role::Init, Standing::Done { success }) => success,
                (Role::Init, _) => false,
                // The next one waits until a sidecar is up, but not for one that is restarting once the pod runs.
                (Role::Sidecar, _) => {
                    self.containers.get(index).is_some_and(|tracked| tracked.started) || self.mains_started()
                }
                (Role::Main, _) => true,
            };
            if !go_on && !self.mains_started() {
                return;
            }
        }
        // Sidecars end with the pod's work.
        if self.mains_done() {
            let deadline = Instant::now() + self.grace();
            for index in 0..self.containers.len() {
                if self.containers.get(index).is_some_and(|tracked| tracked.role == Role::Sidecar) {
                    self.stop(index, deadline);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let phase = self.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    fn mains_started(&self) -> bool {
        self.containers.iter().any(|tracked| tracked.role == Role::Main && tracked.run.is_some())
    }

    fn mains_done(&self) -> bool {
        self.containers
            .iter()
            .filter(|tracked| tracked.role == Role::Main)
            .all(|tracked| tracked.exit().is_some_and(|exit| !tracked.role.restarts(&self.pod, exit.code)))
    }

    /// A pod with an image that nothing here stands for says so and waits.
    async fn is_runnable(&mut self) -> bool {
        if self.shared.containers.is_enabled() {
            return true;
        }
        let mut first = None;
        for index in 0..self.containers.len() {
            let Some(container) = self.container(index) else {
                continue;
            };
            let image = container.image.as_deref().unwrap_or_default();
            let Err(cannot) = Entrypoint::of(&self.shared.config, image) else {
                continue;
            };
            let Some(tracked) = self.containers.get_mut(index) else {
                continue;
            };
            tracked.wait(cannot.reason(), cannot.to_string());
            first.get_or_insert((index, cannot));
        }
        let Some((index, cannot)) = first else {
            self.not_runnable.take_if(|(reason, _)| reason != network::REASON);
            return true;
        };
        let said = (cannot.reason().to_owned(), cannot.to_string());
        if self.not_runnable.as_ref() != Some(&said) {
            self.event("Warning", index, "Failed", &said.1).await;
            self.not_runnable = Some(said);
        }
        false
    }

    async fn ensure_effective(&mut self, timer: &mut Timer) -> bool {
        if self.effective.is_some() {
            return true;
        }
        match token::with_api_access(&self.shared.client, (*self.pod).clone()).await {
            Ok(pod) => {
                self.effective = Some(pod);
                true
            }
            Err(error) => {
                self.volumes_failed(&SetupError::Api(error), timer).await;
                false
            }
        }
    }

    /// Brings the volumes up to date; false when containers cannot start yet.
    async fn ensure_volumes(&mut self, timer: &mut Timer) -> bool {
        if let Some(retry_at) = self.volumes.retry_at
            && Instant::now() < retry_at
        {
            timer.at(retry_at);
            return self.volumes.ready;
        }
        let token_due =
            self.tokens.until_renewal(Timestamp::now()).is_some_and(|wait| wait <= Duration::from_secs(1));
        if self.volumes.stale || token_due {
            if let Err(error) = self.set_up_volumes().await {
                self.volumes_failed(&error, timer).await;
                return self.volumes.ready;
            }
            self.volumes.ready = true;
            self.volumes.stale = false;
            self.volumes.retry_at = None;
            self.volumes.failures = 0;
        }
        if let Some(wait) = self.tokens.until_renewal(Timestamp::now()) {
            timer.after(wait);
        }
        true
    }

    async fn volumes_failed(&mut self, error: &SetupError, timer: &mut Timer) {
        let message = error.message();
        self.volumes.failures = self.volumes.failures.saturating_add(1);
        let wait = VOLUME_RETRY.delay(self.volumes.failures);
        self.volumes.retry_at = Some(Instant::now() + wait);
        timer.after(wait);
        for tracked in self.containers.iter_mut().filter(|tracked| tracked.run.is_none()) {
            tracked.wait("ContainerCreating", message.clone());
        }
        self.shared.recorder.warning(self.pod.as_ref(), "FailedMount", &message).await;
    }

    async fn set_up_volumes(&mut self) -> Result<(), SetupError> {
        let pod = self.effective.as_ref().unwrap_or(&self.pod);
        let sources = Sources::fetch(&self.shared.client, pod).await.map_err(SetupError::Api)?;
        self.tokens.renew(&self.shared.client, pod, Timestamp::now()).await.map_err(SetupError::Api)?;
        let tokens = self.tokens.values();
        let ca = fs::read_to_string(&self.shared.config.ca_path).unwrap_or_default();
        let claims = Claims::fetch(&self.shared.client, pod, &self.shared.config.data_dir);
        let claims = claims.await.map_err(SetupError::Api)?;
        let host = self.shared.host(self.address);
        let inputs = Inputs { pod, host, sources: &sources, claims: &claims, tokens: &tokens, ca: &ca };
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let content = volume::content(volume, &inputs).map_err(SetupError::Volume)?;
            let path = self.dir.volume(&volume.name);
            write_volume(volume, &path, &content)
                .map_err(|source| SetupError::Io { volume: volume.name.clone(), source })?;
        }
        Ok(())
    }

    /// Takes a container one step further.
    async fn advance(&mut self, index: usize, timer: &mut Timer) -> Standing {
        let current_hash = self.container(index).map(launch::spec_hash);
        let grace = self.grace();
        let Some(tracked) = self.containers.get_mut(index) else {
            return Standing::Waiting;
        };
        if let Some(run) = &tracked.run
            && run.exit.is_none()
        {
            let changed = current_hash.as_ref() != Some(&run.instance.launch.spec_hash);
            if changed && !tracked.replaced {
                tracked.replaced = true;
                let text = format!("Container {} definition changed, will be restarted", tracked.name);
                self.event("Normal", index, "Killing", &text).await;
                self.stop(index, Instant::now() + grace);
            }
            return Standing::Running;
        }
        if let Some(exit) = tracked.exit() {
            let code = exit.code;
            if !tracked.role.restarts(&self.pod, code) {
                return Standing::Done { success: code == 0 };
            }
        }
        if let Some(retry_at) = tracked.retry_at
            && Instant::now() < retry_at
        {
            timer.at(retry_at);
            return Standing::Waiting;
        }
        self.start(index, timer).await;
        if self.containers.get(index).is_some_and(TrackedContainer::is_running) {
            Standing::Running
        } else {
            Standing::Waiting
        }
    }

    async fn start(&mut self, index: usize, timer: &mut Timer) {
        let Some(container) = self.container(index).cloned() else {
            return;
        };
        let Some(number) = self.containers.get(index).map(TrackedContainer::next_number) else {
            return;
        };
        let pod = self.effective.clone().unwrap_or_else(|| (*self.pod).clone());
        let sources = match Sources::fetch(&self.shared.client, &pod).await {
            Ok(sources) => sources,
            Err(error) => {
                self.cannot_start(index, "CreateContainerConfigError", &message(&error), timer).await;
                return;
            }
        };
        let Some(launch) = self.launch(index, &pod, &container, &sources, number, timer).await else {
            return;
        };
        let image = launch.image.clone();
        let instance = match Instance::start(
            self.dir.attempt(&container.name, number),
            launch,
            &self.shared.config.shim,
        )
        .await
        {
            Ok(instance) => instance,
            Err(error) => {
                let text = report::chain(&error);
                self.cannot_start(index, "RunContainerError", &text, timer).await;
                return;
            }
        };
        let dir = self.dir.clone();
        let Some(tracked) = self.containers.get_mut(index) else {
            return;
        };
        if let Some(Run { instance, number, exit: Some(exit) }) = tracked.run.take() {
            tracked.last =
                Some(Ended { id: id(&dir, &tracked.name, number), started_at: instance.started_at, exit });
        }
        let address = instance.address();
        tracked.run = Some(Run { instance, number, exit: None });
        (tracked.waiting, tracked.retry_at, tracked.started, tracked.ready) = (None, None, false, false);
        let _ = fs::remove_file(dir.waiting_mark(&container.name));
        forget_attempts_before(&dir.container(&container.name), number - 1);
        self.address = address.unwrap_or(self.address);
        self.watch_exit(index);
        self.start_probes(index);
        self.start_hook(index, &container);
        self.event(
            "Normal",
            index,
            "Pulled",
            &format!("Container image {image:?} already present on machine"),
        )
        .await;
        self.event("Normal", index, "Created", &format!("Created container: {}", container.name)).await;
        self.event("Normal", index, "Started", &format!("Started container {}", container.name)).await;
    }

    /// What is started for a container: a process of this machine, or a container of a runtime.
    async fn launch(
        &mut self,
        index: usize,
        pod: &Pod,
        container: &Container,
        sources: &Sources,
        number: i32,
        timer: &mut Timer,
    ) -> Option<Launch> {
        let image = container.image.as_deref().unwrap_or_default();
        let trust = match Trust::of(&self.shared.client, pod).await {
            Ok(trust) => trust,
            Err(error) => {
                self.cannot_start(index, "CreateContainerConfigError", &message(&error), timer).await;
                return None;
            }
        };
        let entrypoint = Entrypoint::of(&self.shared.config, image);
        let user = if entrypoint.is_ok() { User::Process } else { User::Container };
        if !trust.allows_shared_claims()
            && let Err(problem) = self.take_claims(pod, container, user)
        {
            self.cannot_start(index, "CreateContainerError", &problem, timer).await;
            return None;
        }
        let prepared = if let Ok(entrypoint) = entrypoint {
            // The address that an earlier container of this pod had from its runtime went with it.
            self.address = self.address_of_running().unwrap_or(self.own_address);
            trust
                .check_process(&self.shared.config, &entrypoint, pod, container)
                .map_err(LaunchError::from)
                .and_then(|()| {
                    let network = self.networks.namespace.as_deref();
                    let home = Home {
                        dir: &self.dir,
                        address: self.address,
                        network,
                        serves_networks: network.is_some() || trust.allows_networks_of_the_machine(),
                    };
                    launch::prepare(&self.shared, &home, pod, container, sources, number)
                })
                .map(|(launch, _)| launch)
        } else {
            let policy = PullPolicy::of(container.image_pull_policy.as_deref(), image);
            let runtime = match self.shared.containers.with_image(image, policy).await {
                Ok(runtime) => runtime,
                Err(unready) if unready.in_progress => {
                    timer.after(PULL_LOOK);
                    let tracked = self.containers.get_mut(index)?;
                    tracked.retry_at = Some(Instant::now() + PULL_LOOK);
                    tracked.wait(unready.reason, unready.message);
                    return None;
                }
                Err(unready) => {
                    self.cannot_start(index, unready.reason, &unready.message, timer).await;
                    return None;
                }
            };
            let inputs = runtime_container::Inputs {
                shared: &self.shared,
                dir: &self.dir,
                address: self.address,
                sources,
                number,
                socket: runtime.socket(),
                network_of: self.network_holder(index),
                trust: &trust,
            };
            runtime_container::prepare(&inputs, pod, container)
        };
        match prepared {
            Ok(launch) => {
                self.containers.get_mut(index)?.used_runtime |= launch.runtime_container.is_some();
                Some(launch)
            }
            Err(error) => {
                self.cannot_start(index, error.reason(), &error.to_string(), timer).await;
                None
            }
        }
    }

    /// Gives the claims that a container mounts to its kind.
    fn take_claims(&self, pod: &Pod, container: &Container, user: User) -> Result<(), String> {
        let claims = claims::of_pod(pod);
        for mount in container.volume_mounts.iter().flatten() {
            if claims.contains_key(mount.name.as_str())
                && let Ok(directory) = fs::read_link(self.dir.volume(&mount.name))
            {
                claims::take(&directory, user).map_err(|why| format!("volume {:?}: {why}", mount.name))?;
            }
        }
        Ok(())
    }

    /// The container of this pod whose network the others share: the first that runs and has one of its own.
    fn network_holder(&self, index: usize) -> Option<String> {
        let others = self
            .containers
            .iter()
            .enumerate()
            .filter(|(other, tracked)| *other != index && tracked.is_running());
        others
            .filter_map(|(_, tracked)| tracked.run.as_ref()?.instance.launch.runtime_container.as_ref())
            .find(|container| container.spec.network_of.is_none())
            .map(|container| container.spec.name.clone())
    }

    async fn cannot_start(&mut self, index: usize, reason: &str, message: &str, timer: &mut Timer) {
        let wait = spread(CONFIG_RETRY);
        timer.after(wait);
        if let Some(tracked) = self.containers.get_mut(index) {
            tracked.retry_at = Some(Instant::now() + wait);
            tracked.wait(reason, message);
        }
        self.event("Warning", index, "Failed", &format!("Error: {message}")).await;
    }
}

fn write_volume(volume: &Volume, path: &Path, content: &Content) -> io::Result<()> {
    match content {
        Content::Files(payload) => atomic::write(path, payload).map(drop),
        Content::Empty => {
            create_private_dir(path)?;
            // For containers with users of their own; the pod's directory above keeps everybody else out.
            fs::set_permissions(path, fs::Permissions::from_mode(0o777))
        }
        Content::Host(path) => check_host_path(volume, path),
        Content::Claim(directory) => link_claim(path, directory),
    }
}

/// The volume leads to the claim's directory, which stays when the pod goes.
fn link_claim(volume: &Path, directory: &Path) -> io::Result<()> {
    if fs::read_link(volume).is_ok_and(|target| target == directory) {
        return Ok(());
    }
    if let Some(parent) = volume.parent() {
        create_private_dir(parent)?;
    }
    match symlink(directory, volume) {
        // A claim of the same name has come in place of the first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(volume)?;
            symlink(directory, volume)
        }
        other => other,
    }
}

fn check_host_path(volume: &Volume, path: &Path) -> io::Result<()> {
    let type_ = volume.host_path.as_ref().and_then(|host| host.type_.as_deref()).unwrap_or_default();
    let wrong = |what: &str| {
        Err(io::Error::other(format!("hostPath type check failed: {} is not a {what}", path.display())))
    };
    match type_ {
        "DirectoryOrCreate" => fs::create_dir_all(path),
        "FileOrCreate" => fs::OpenOptions::new().append(true).create(true).open(path).map(drop),
        "Directory" if !path.is_dir() => wrong("directory"),
        "File" if !path.is_file() => wrong("file"),
        _ => Ok(()),
    }
}

/// Keeps the attempt for `kubectl logs --previous` and removes older ones.
fn forget_attempts_before(container_dir: &Path, oldest: i32) {
    for number in
        Attempt::numbers(container_dir).unwrap_or_default().into_iter().filter(|number| *number < oldest)
    {
        let _ = fs::remove_dir_all(container_dir.join(number.to_string()));
    }
}
