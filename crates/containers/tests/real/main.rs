//! The client against real Docker and real Podman. Containers run this very test program, from an image that
//! the crate itself builds: no registry is needed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod containers;
mod events;
mod images;
mod inside;
mod networks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use causeway_containers::{Choice, ContainerSpec, Runtime, client_image};
use causeway_testkit::daemon::{Daemon, Testbed};

/// Defines a test for each runtime out of one function.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn docker() {
                if let Some(bed) = crate::Bed::shared(causeway_testkit::daemon::Daemon::Docker).await {
                    super::super::$name(&bed).await;
                }
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn podman() {
                if let Some(bed) = crate::Bed::shared(causeway_testkit::daemon::Daemon::Podman).await {
                    super::super::$name(&bed).await;
                }
            }
        }
    )+};
}
pub(crate) use on_both;

/// A runtime with the image of this program in it.
pub struct Bed {
    pub runtime: Runtime,
    pub image: String,
    pub testbed: Arc<Testbed>,
}

/// Tests that run at the same time share a daemon; the last one out ends it.
static DOCKER: Mutex<Weak<Testbed>> = Mutex::new(Weak::new());
static PODMAN: Mutex<Weak<Testbed>> = Mutex::new(Weak::new());

impl Bed {
    /// A daemon that other tests use too.
    pub async fn shared(daemon: Daemon) -> Option<Self> {
        let testbed = tokio::task::spawn_blocking(move || {
            let mut known: MutexGuard<'_, Weak<Testbed>> = match daemon {
                Daemon::Docker => DOCKER.lock(),
                Daemon::Podman => PODMAN.lock(),
            }
            .unwrap_or_else(PoisonError::into_inner);
            if let Some(testbed) = known.upgrade() {
                return Some(testbed);
            }
            let testbed = Arc::new(Testbed::start(daemon)?);
            *known = Arc::downgrade(&testbed);
            Some(testbed)
        })
        .await
        .unwrap()?;
        Some(Self::with(testbed).await)
    }

    async fn with(testbed: Arc<Testbed>) -> Self {
        let (runtime, image) = connect(&testbed).await;
        Self { runtime, image, testbed }
    }

    /// A container of this program in one of the roles of [`inside`].
    pub fn spec(&self, name: &str, role: &str) -> ContainerSpec {
        ContainerSpec {
            name: name.to_owned(),
            image: self.image.clone(),
            command: Some(
                ["inside::play", "--exact", "--ignored", "--nocapture"].map(str::to_owned).to_vec(),
            ),
            env: vec![("ROLE".to_owned(), role.to_owned())],
            ..ContainerSpec::default()
        }
    }
}

/// Connects, and has the image built.
pub async fn connect(testbed: &Testbed) -> (Runtime, String) {
    let choice = Choice::Socket(testbed.socket());
    let runtime =
        causeway_testkit::eventually("the runtime answers", async || Runtime::connect(&choice).await).await;
    let mut lines = Vec::new();
    let built =
        client_image::ensure(&runtime, &client_image::Options::default(), |line| lines.push(line.to_owned()))
            .await;
    let image = built.unwrap_or_else(|error| panic!("{}\n{}", error.report(), lines.join("\n")));
    (runtime, image)
}

/// A name that no other test uses.
pub fn unique(name: &str) -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("cw-{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
