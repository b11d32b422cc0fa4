//! A Docker or Podman that the tests of this program share, with the client's image in it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use causeway_containers::{
    Attachment, Choice, Container, ContainerSpec, LogOptions, Runtime, client_image, labels,
};
use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::daemon::{Daemon, Testbed};
use causeway_testkit::server::program;
use futures::{StreamExt, TryStreamExt};
use tokio::runtime::Builder;

/// A daemon, and a way to talk to it that the program under test knows nothing of.
pub struct Bed {
    testbed: Mutex<Testbed>,
    pub socket: PathBuf,
    tokio: tokio::runtime::Runtime,
    runtime: Runtime,
    /// What containers of tests run: this very program.
    pub image: String,
}

/// Tests that run at the same time share a daemon; the last one out ends it.
static DOCKER: Mutex<Weak<Bed>> = Mutex::new(Weak::new());
static PODMAN: Mutex<Weak<Bed>> = Mutex::new(Weak::new());

impl Bed {
    /// A daemon that other tests use too; none, said aloud, where it can't be had.
    pub fn shared(daemon: Daemon) -> Option<Arc<Self>> {
        let known = match daemon {
            Daemon::Docker => &DOCKER,
            Daemon::Podman => &PODMAN,
        };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bed) = known.upgrade() {
            return Some(bed);
        }
        let bed = Self::own(daemon)?;
        *known = Arc::downgrade(&bed);
        Some(bed)
    }

    /// A daemon of one's own, to be stopped and started.
    pub fn own(daemon: Daemon) -> Option<Arc<Self>> {
        let testbed = Testbed::start(daemon)?;
        let socket = testbed.socket();
        let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (runtime, image) = tokio.block_on(async {
            let choice = Choice::Socket(socket.clone());
            let runtime =
                causeway_testkit::eventually("the runtime answers", async || Runtime::connect(&choice).await)
                    .await;
            let options = client_image::Options {
                binary: PathBuf::from(program()),
                ..client_image::Options::default()
            };
            let image = client_image::ensure(&runtime, &options, |_| {}).await.unwrap();
            (runtime, image)
        });
        Some(Arc::new(Self { testbed: Mutex::new(testbed), socket, tokio, runtime, image }))
    }

    /// Ends the daemon with all it runs, and starts it again on the same state.
    pub fn restart(&self) {
        self.testbed.lock().unwrap().restart();
    }

    pub fn stop(&self) {
        self.testbed.lock().unwrap().down();
    }

    pub fn start(&self) {
        self.testbed.lock().unwrap().up();
    }

    /// Asks the runtime something.
    pub fn ask<T>(&self, work: impl AsyncFnOnce(&Runtime) -> causeway_containers::Result<T>) -> T {
        self.tokio.block_on(work(&self.runtime)).unwrap_or_else(|error| panic!("{}", error.report()))
    }

    /// Looks at several things of the runtime. Podman refuses that for as long as it removes one of them.
    fn look<T>(&self, what: &str, look: impl AsyncFn(&Runtime) -> causeway_containers::Result<T>) -> T {
        eventually(&format!("the runtime shows its {what}"), PATIENCE, || {
            self.tokio.block_on(look(&self.runtime)).map_err(|error| error.report())
        })
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.tokio.block_on(work)
    }

    /// Containers of the object with this UID.
    pub fn containers_of(&self, uid: &str) -> Vec<Container> {
        self.look("containers", async |runtime| runtime.containers(&[(labels::OWNER, uid)]).await)
    }

    /// Names of the networks of the object with this UID.
    pub fn networks_of(&self, uid: &str) -> Vec<String> {
        let owned = async |runtime: &Runtime| runtime.networks(&[(labels::OWNER, uid)]).await;
        self.look("networks", owned).into_iter().map(|network| network.name).collect()
    }

    /// Runs this program in a container on a network to its end: its exit code, and what it said.
    pub fn run(&self, network: &str, args: &[&str]) -> (i64, String) {
        self.ask(async |runtime| {
            let spec = ContainerSpec {
                name: format!("visitor-{}", unique()),
                image: self.image.clone(),
                command: Some(args.iter().map(|&arg| arg.to_owned()).collect()),
                networks: vec![Attachment { network: network.to_owned(), aliases: vec![] }],
                ..ContainerSpec::default()
            };
            let id = runtime.create(&spec).await?;
            let ended = async {
                runtime.start(&id).await?;
                let code = runtime.wait(&id).await?;
                let lines: Vec<_> = runtime.logs(&id, LogOptions::default()).try_collect().await?;
                let text =
                    |line: &causeway_containers::LogLine| String::from_utf8_lossy(&line.text).into_owned();
                Ok((code, lines.iter().map(text).collect::<Vec<_>>().join("\n")))
            }
            .await;
            runtime.remove(&id).await?;
            ended
        })
    }

    /// What a container has said so far.
    pub fn log_of(&self, id: &str) -> String {
        let lines: Vec<_> = self.tokio.block_on(
            self.runtime.logs(id, LogOptions::default()).filter_map(async |line| line.ok()).collect(),
        );
        lines.iter().map(|line| String::from_utf8_lossy(&line.text).into_owned() + "\n").collect()
    }
}

/// A number that no other test of this process has.
pub fn unique() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
