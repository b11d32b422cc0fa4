//! A runtime for tests, in the test's own process: it speaks enough of Docker's API on a Unix socket for the
//! real client to talk to it, does what it is told to do wrong, dies and comes back with its memory.
//! Containers run nothing; a hook may put something in the place of their process.

mod server;
mod state;

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_base::lock::lock;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast, oneshot};

use crate::{Choice, File, Kind, Runtime};
use state::World;

/// What a runtime is asked to do, as faults and counts name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Ping,
    Version,
    Events,
    Build,
    Pull,
    InspectImage,
    RemoveImage,
    CreateNetwork,
    InspectNetwork,
    ListNetworks,
    RemoveNetwork,
    Attach,
    Detach,
    CreateContainer,
    InspectContainer,
    ListContainers,
    StartContainer,
    StopContainer,
    KillContainer,
    WaitContainer,
    RemoveContainer,
    CopyInto,
    Logs,
}

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An answer that is an error.
    Error { status: u16, message: String },
    /// An error in the middle of a build.
    StreamError(String),
    /// The right answer, late.
    Delay(Duration),
    /// No answer.
    Hang,
}

impl Fault {
    /// An answer that is an error.
    pub fn error(status: u16, message: &str) -> Self {
        Self::Error { status, message: message.to_owned() }
    }

    /// An error in the middle of a build.
    pub fn stream_error(message: &str) -> Self {
        Self::StreamError(message.to_owned())
    }
}

/// A container as a test sees it.
#[derive(Clone, Debug)]
pub struct FakeContainer {
    pub id: String,
    pub name: String,
    pub image: String,
    pub running: bool,
    pub labels: BTreeMap<String, String>,
    /// Aliases by the network's name.
    pub networks: BTreeMap<String, Vec<String>>,
    /// Empty for the default one.
    pub network_mode: String,
    /// The host's address by the container's port.
    pub ports: BTreeMap<u16, SocketAddr>,
    pub command: Vec<String>,
    pub env: Vec<String>,
    /// What was copied in.
    pub files: Vec<File>,
}

/// Put in the place of a container's process; dropped when the container ends.
pub type Process = Box<dyn Any + Send>;
type Hook = Arc<dyn Fn(&FakeContainer) -> Process + Send + Sync>;

/// A runtime that lives in this process and ends when dropped.
pub struct Fake {
    shared: Arc<Shared>,
    directory: PathBuf,
    server: Mutex<Option<Server>>,
}

struct Server {
    stop_tx: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// What outlives a death of the server.
pub(crate) struct Shared {
    kind: Kind,
    world: Mutex<World>,
    faults: Mutex<Vec<(Operation, Fault, usize)>>,
    counts: Mutex<HashMap<Operation, usize>>,
    /// All events that ever were, with their time.
    history: Mutex<Vec<(u128, String)>>,
    /// world → followers of events
    events_tx: broadcast::Sender<String>,
    changed: Notify,
    hook: Mutex<Option<Hook>>,
}

impl Fake {
    /// Starts a runtime of this kind, empty.
    pub fn start(kind: Kind) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("causeway-fake-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory for temporary files can be written to");
        let shared = Arc::new(Shared {
            kind,
            world: Mutex::new(World::new()),
            faults: Mutex::default(),
            counts: Mutex::default(),
            history: Mutex::default(),
            events_tx: broadcast::channel(1024).0,
            changed: Notify::new(),
            hook: Mutex::default(),
        });
        let fake = Self { shared, directory, server: Mutex::new(None) };
        fake.restart();
        fake
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("runtime.sock")
    }

    /// The choice that finds it.
    pub fn choice(&self) -> Choice {
        Choice::Socket(self.socket())
    }

    /// Connects as a program would.
    pub async fn connect(&self) -> Runtime {
        Runtime::connect(&self.choice()).await.expect("the fake runtime answers")
    }

    /// Lets the next calls of an operation go wrong.
    pub fn fault(&self, operation: Operation, fault: Fault, times: usize) {
        lock(&self.shared.faults).push((operation, fault, times));
    }

    /// How often an operation was asked for.
    pub fn count(&self, operation: Operation) -> usize {
        lock(&self.shared.counts).get(&operation).copied().unwrap_or_default()
    }

    /// The runtime goes away with all its connections; containers run on.
    pub fn die(&self) {
        if let Some(server) = lock(&self.server).take() {
            let _ = server.stop_tx.send(());
            let _ = server.thread.join();
        }
        let _ = std::fs::remove_file(self.socket());
    }

    /// It comes back, remembering everything.
    pub fn restart(&self) {
        self.die();
        let listener = UnixListener::bind(self.socket()).expect("the fake's socket can be bound");
        let (stop_tx, stop_rx) = oneshot::channel();
        let shared = self.shared.clone();
        // A runtime of its own: when it ends, every connection ends with it, as when a daemon is killed.
        let thread = std::thread::spawn(move || server::run(listener, shared, stop_rx));
        *lock(&self.server) = Some(Server { stop_tx, thread });
    }

    /// Called for every container that is started; what it gives is dropped when the container ends.
    pub fn on_start(&self, hook: impl Fn(&FakeContainer) -> Process + Send + Sync + 'static) {
        *lock(&self.shared.hook) = Some(Arc::new(hook));
    }

    /// What the runtime says its architecture is, as Go names it.
    pub fn set_architecture(&self, architecture: &str) {
        architecture.clone_into(&mut lock(&self.shared.world).architecture);
    }

    /// Puts an image there.
    pub fn add_image(&self, reference: &str) {
        lock(&self.shared.world).add_image(reference, BTreeMap::new());
    }

    /// Makes a network, as another program would.
    pub fn add_network(&self, name: &str) {
        let event = lock(&self.shared.world).add_network(&json!({"Name": name}));
        self.shared.tell(event);
    }

    /// Removes a network with no question asked.
    pub fn drop_network(&self, name: &str) {
        let event = lock(&self.shared.world).drop_network(name);
        self.shared.tell(event);
    }

    /// The container's process ends by itself.
    pub fn exit(&self, container: &str, code: i64) {
        self.shared.end(container, code);
    }

    /// Says that a container is paused, or not any more; what the hook put in its place goes on.
    pub fn pause(&self, container: &str, paused: bool) {
        let event = lock(&self.shared.world).pause_container(container, paused);
        self.shared.tell(event);
    }

    /// The container vanishes, as when another program removes it.
    pub fn drop_container(&self, container: &str) {
        self.shared.end(container, 137);
        let event = lock(&self.shared.world).remove_container(container);
        self.shared.tell(event);
    }

    /// The runtime has the container on record only: it can be removed, and nothing else. Nobody is told.
    pub fn lose_container(&self, container: &str) {
        lock(&self.shared.world).lose_container(container);
    }

    /// Lets a container write a line.
    pub fn write_log(&self, container: &str, line: &str) {
        lock(&self.shared.world).write_log(container, line);
        self.shared.changed.notify_waiters();
    }

    /// All containers, by name.
    pub fn containers(&self) -> Vec<FakeContainer> {
        lock(&self.shared.world).snapshots()
    }

    /// The container of this name or id.
    pub fn container(&self, name: &str) -> Option<FakeContainer> {
        self.containers().into_iter().find(|container| container.name == name || container.id == name)
    }

    /// Names of all networks.
    pub fn networks(&self) -> Vec<String> {
        lock(&self.shared.world).network_names()
    }

    /// What every build was made from, in order.
    pub fn dockerfiles(&self) -> Vec<String> {
        lock(&self.shared.world).dockerfiles.clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.die();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Shared {
    /// The fault that the next call of this operation meets.
    fn next_fault(&self, operation: Operation) -> Option<Fault> {
        *lock(&self.counts).entry(operation).or_default() += 1;
        let mut faults = lock(&self.faults);
        let index = faults.iter().position(|(of, _, _)| *of == operation)?;
        let (_, fault, left) = &mut faults[index];
        let fault = fault.clone();
        *left = left.saturating_sub(1);
        if *left == 0 {
            faults.remove(index);
        }
        Some(fault)
    }

    /// Tells followers what happened.
    fn tell(&self, event: Option<Value>) {
        if let Some(mut event) = event {
            let now = state::now_nanos();
            event["time"] = json!((now / 1_000_000_000) as u64);
            event["timeNano"] = json!(now as u64);
            let line = event.to_string();
            lock(&self.history).push((now, line.clone()));
            let _ = self.events_tx.send(line);
        }
        self.changed.notify_waiters();
    }

    fn end(&self, container: &str, code: i64) {
        let (event, process) = lock(&self.world).end_container(container, code);
        // Outside of the lock: the hook's own thing may take its time to end.
        drop(process);
        self.tell(event);
    }

    fn begin(&self, container: &str) -> Result<bool, (u16, String)> {
        let Some((event, snapshot)) = lock(&self.world).start_container(container)? else {
            return Ok(false);
        };
        let hook = lock(&self.hook).clone();
        if let Some(hook) = hook {
            let process = hook(&snapshot);
            lock(&self.world).keep_process(&snapshot.id, process);
        }
        self.tell(Some(event));
        Ok(true)
    }
}

/// Where files copied to `base` come to lie.
pub(crate) fn inside(base: &str, path: &Path) -> PathBuf {
    Path::new("/").join(base).join(path)
}

#[cfg(test)]
mod tests;
