//! The container runtime as pods see it: found when first needed and again when it went away, with its images looked
//! up or pulled, and what pods that are gone left in it removed.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use causeway_base::lock::lock;
use causeway_containers::{Choice, Runtime, labels};
use tokio::sync::Mutex as AsyncMutex;

use crate::layout::PodDir;

/// The kind in the labels of containers.
pub(super) const KIND: &str = "Pod";

/// Why a container cannot start yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unready {
    /// The reason of the container's waiting state.
    pub reason: &'static str,
    pub message: String,
    /// Nothing is wrong; it takes a while.
    pub in_progress: bool,
}

impl Unready {
    fn failed(reason: &'static str, message: String) -> Self {
        Self { reason, message, in_progress: false }
    }
}

/// When an image is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// As the container says, else as its image's tag suggests.
    pub(crate) fn of(policy: Option<&str>, image: &str) -> Self {
        match policy {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            Some("IfNotPresent") => Self::IfNotPresent,
            _ => {
                let name = image.rsplit('/').next().unwrap_or(image);
                let latest = !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
                if latest { Self::Always } else { Self::IfNotPresent }
            }
        }
    }
}

/// A pull: under way, or how it ended.
type Pull = Option<Result<(), String>>;

/// The runtime that pods of other images run in.
pub(crate) struct Containers {
    choice: Option<Choice>,
    instance: String,
    data_dir: PathBuf,
    connected: AsyncMutex<Option<Runtime>>,
    pulls: Arc<Mutex<HashMap<String, Pull>>>,
}

impl Containers {
    /// Nothing is looked for yet; the data directory gets an id by which its containers are known.
    pub(crate) fn new(choice: Option<Choice>, data_dir: &Path) -> io::Result<Self> {
        Ok(Self {
            choice,
            instance: causeway_containers::instance(data_dir)?,
            data_dir: data_dir.to_owned(),
            connected: AsyncMutex::default(),
            pulls: Arc::default(),
        })
    }

    /// Whether images other than Causeway's own can run at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.choice.is_some()
    }

    /// The id of this node's data directory.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// A runtime that answers, or where it was looked for.
    pub(crate) async fn runtime(&self) -> Result<Runtime, Unready> {
        let unavailable = |message| Unready::failed("RuntimeUnavailable", message);
        let Some(choice) = &self.choice else {
            return Err(unavailable("container runtimes are switched off".to_owned()));
        };
        let mut connected = self.connected.lock().await;
        if let Some(runtime) = &*connected {
            match runtime.ping().await {
                Ok(()) => return Ok(runtime.clone()),
                Err(error) => tracing::info!(error = error.report(), "the container runtime went away"),
            }
        }
        *connected = None;
        let runtime = Runtime::connect(choice).await.map_err(|error| unavailable(error.to_string()))?;
        tracing::info!(runtime = ?runtime, "found a container runtime");
        self.sweep(&runtime).await;
        *connected = Some(runtime.clone());
        Ok(runtime)
    }

    /// Removes containers whose pod is gone and whose shim died.
    async fn sweep(&self, runtime: &Runtime) {
        let live: HashSet<String> = match PodDir::all(&self.data_dir) {
            Ok(dirs) => dirs.into_iter().map(|dir| dir.uid).collect(),
            Err(error) => {
                tracing::warn!(error = %error, "cannot tell which containers are left over");
                return;
            }
        };
        match runtime.sweep(&self.instance, KIND, |uid| live.contains(uid)).await {
            Ok(swept) if swept.containers.is_empty() => {}
            Ok(swept) => {
                tracing::info!(containers = ?swept.containers, "removed what deleted pods left behind");
            }
            Err(error) => {
                tracing::warn!(error = error.report(), "cannot remove what deleted pods left behind");
            }
        }
    }

    /// Removes what is left of a pod's containers; usually their shims have done so.
    pub(crate) async fn remove_pod(&self, uid: &str) {
        let Some(runtime) = self.connected.lock().await.clone() else { return };
        let ours = [(labels::INSTANCE, self.instance.as_str()), (labels::OWNER, uid)];
        let removed = async {
            for container in runtime.containers(&ours).await? {
                runtime.remove(&container.id).await?;
            }
            Ok::<_, causeway_containers::Error>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(
                pod = uid,
                error = error.report(),
                "cannot remove a pod's containers; the next start will"
            );
        }
    }

    /// A runtime that holds the image. Pulls go on in the background: ask again.
    pub(crate) async fn with_image(&self, image: &str, policy: PullPolicy) -> Result<Runtime, Unready> {
        let runtime = self.runtime().await?;
        let found = match runtime.image(image).await {
            Ok(found) => found.is_some(),
            Err(error) => return Err(Unready::failed("InspectFailed", error.report())),
        };
        match policy {
            PullPolicy::IfNotPresent | PullPolicy::Never if found => return Ok(runtime),
            PullPolicy::Never => {
                let message = format!(
                    "Container image {image:?} is not present with pull policy of Never; build or load it with {} first",
                    runtime.kind()
                );
                return Err(Unready::failed("ErrImageNeverPull", message));
            }
            _ => {}
        }
        match self.pull(&runtime, image) {
            None => Err(Unready {
                reason: "ContainerCreating",
                message: format!("Pulling image {image:?}"),
                in_progress: true,
            }),
            Some(Ok(())) => Ok(runtime),
            // Without a registry what is here is what there is.
            Some(Err(error)) if found => {
                tracing::info!(image, error, "cannot pull an image; the one on this machine is used");
                Ok(runtime)
            }
            Some(Err(error)) => Err(Unready::failed("ErrImagePull", error)),
        }
    }

    /// How the pull ended; begins one if there is none. An end is told once.
    fn pull(&self, runtime: &Runtime, image: &str) -> Pull {
        let mut pulls = lock(&self.pulls);
        match pulls.get(image) {
            Some(None) => return None,
            Some(Some(_)) => return pulls.remove(image).flatten(),
            None => {}
        }
        pulls.insert(image.to_owned(), None);
        let (pulls, runtime, image) = (self.pulls.clone(), runtime.clone(), image.to_owned());
        tokio::spawn(async move {
            let pulled = runtime.pull(&image, |_| {}).await.map(drop).map_err(|error| error.report());
            lock(&pulls).insert(image, Some(pulled));
        });
        None
    }
}

#[cfg(test)]
mod tests {
    use causeway_containers::{
        Kind,
        fake::{Fake, Fault, Operation},
    };

    use super::*;

    fn containers(choice: Option<Choice>) -> (tempfile::TempDir, Containers) {
        let data = tempfile::tempdir().unwrap();
        let containers = Containers::new(choice, data.path()).unwrap();
        (data, containers)
    }

    #[test]
    fn the_tag_decides_where_the_container_does_not() {
        let cases = [
            (None, "web:1", PullPolicy::IfNotPresent),
            (None, "web", PullPolicy::Always),
            (None, "host:5000/web:latest", PullPolicy::Always),
            (None, "host:5000/web", PullPolicy::Always),
            (None, "web@sha256:00", PullPolicy::IfNotPresent),
            (Some("Never"), "web", PullPolicy::Never),
            (Some("IfNotPresent"), "web", PullPolicy::IfNotPresent),
            (Some("Always"), "web:1", PullPolicy::Always),
        ];
        for (policy, image, expected) in cases {
            assert_eq!(PullPolicy::of(policy, image), expected, "{policy:?} {image}");
        }
    }

    #[tokio::test]
    async fn says_where_it_looked_and_finds_it_later() {
        let fake = Fake::start(Kind::Docker);
        fake.add_image("web:1");
        fake.die();
        let (_data, containers) = containers(Some(fake.choice()));
        let unready = containers.runtime().await.unwrap_err();
        assert_eq!(unready.reason, "RuntimeUnavailable");
        assert!(unready.message.contains(&fake.socket().display().to_string()), "{}", unready.message);
        fake.restart();
        containers.with_image("web:1", PullPolicy::IfNotPresent).await.unwrap();
        fake.die();
        assert!(containers.runtime().await.is_err());
        fake.restart();
        containers.runtime().await.expect("it is looked for again");
    }

    #[tokio::test]
    async fn images_are_had_as_their_policy_says() {
        let fake = Fake::start(Kind::Docker);
        fake.add_image("here:1");
        let (_data, containers) = containers(Some(fake.choice()));
        containers.with_image("here:1", PullPolicy::Never).await.unwrap();
        let never = containers.with_image("gone:1", PullPolicy::Never).await.unwrap_err();
        assert_eq!(never.reason, "ErrImageNeverPull");
        assert_eq!(fake.count(Operation::Pull), 0);
        fake.fault(Operation::Pull, Fault::error(500, "no route to host"), usize::MAX);
        let ask = async |image: &str| loop {
            match containers.with_image(image, PullPolicy::Always).await {
                Err(unready) if unready.in_progress => tokio::task::yield_now().await,
                other => break other,
            }
        };
        ask("here:1").await.expect("what is here is used when nothing can be pulled");
        let failed = ask("gone:1").await.unwrap_err();
        assert_eq!(failed.reason, "ErrImagePull");
        assert!(failed.message.contains("no route to host"), "{}", failed.message);
    }
}
