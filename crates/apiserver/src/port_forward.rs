//! Port-forward: what a client says on an upgraded connection goes to ports of a pod, and the other way.
//!
//! ```text
//!                      ┌ WebSocket ┐   ┌ channels (v4.channel.k8s.io): two channels for each port       kube-rs, Python
//! upgraded connection ─┤           ├───┤
//!                      └ as it is  ┘   └ streams (SPDY/3.1): two streams for each connection to a port   kubectl
//!     inbox, outbox                         └─► relay, one for each connection to the pod
//! ```
//!
//! Neither protocol lets a receiver hold one connection back, so a pod that does not read holds back what comes after it in
//! the same session once [`BUDGET`] is used up, as in Kubernetes.

mod appetite;
mod channels;
mod inbox;
mod negotiation;
mod outbox;
mod relay;
mod spdy;
mod streams;
mod websocket;

pub(crate) use negotiation::{Form, negotiate};

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::{Budget, Share};
use futures::future::BoxFuture;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use inbox::Inbox;

/// Bytes of a session that are on their way to the pod.
const BUDGET: usize = 1024 * 1024;
/// As much is read at once, at most.
const CHUNK: usize = 32 * 1024;
/// Sessions, and connections to pods of all sessions, if descriptors suffice.
const MOST_SESSIONS: u64 = 2048;
const MOST_CONNECTIONS: u64 = 4096;
/// How long the last words of a session may take, in either direction.
const FAREWELL: Duration = Duration::from_secs(5);

/// A client that broke the rules of a protocol: which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Violation(&'static str);

/// How frames are put on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Plain,
    WebSocket,
}

/// A pod whose ports are asked for.
#[derive(Debug, Clone)]
pub struct PodTarget {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The pod has no address of its own.
    pub host_network: bool,
}

/// The part of this process that runs pods and reaches them.
pub trait PodPorts: Send + Sync {
    /// Connects to a port of a pod, in a bounded time; an error is for people.
    fn connect(&self, pod: PodTarget, port: u16) -> BoxFuture<'static, Result<TcpStream, String>>;
}

/// Places for sessions and for connections to pods.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// By user: nobody has all of them.
    sessions: Arc<Budget<String>>,
    connections: Arc<Semaphore>,
}

impl Places {
    fn of(sessions: usize, connections: usize) -> Self {
        Self { sessions: Budget::new(sessions as u64), connections: Arc::new(Semaphore::new(connections)) }
    }

    /// A place for a session of a user; none if that one has as many as are left for others.
    pub(crate) fn session(&self, user: &str) -> Option<Share<String>> {
        self.sessions.take(user.to_owned(), 1)
    }
}

impl Default for Places {
    /// An eighth of the descriptors of this process for each.
    fn default() -> Self {
        let share = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 8;
        Self::of(share.min(MOST_SESSIONS) as usize, share.min(MOST_CONNECTIONS) as usize)
    }
}

/// One client that forwards ports of one pod.
pub(crate) struct Session {
    pub pod: PodTarget,
    pub ports: Arc<dyn PodPorts>,
    pub places: Places,
    pub shutdown: CancellationToken,
}

impl Session {
    /// Serves the client until it leaves, the pod has nothing more to say or the server stops.
    pub(crate) async fn run<I>(self, io: I, form: Form)
    where
        I: AsyncRead + AsyncWrite + Send,
    {
        let wire = form.wire();
        let (reader, writer) = tokio::io::split(io);
        let (outbox, queue) = outbox::queue(wire);
        let mut inbox = Inbox::new(reader, wire);
        let mut writing = pin!(queue.write(writer));
        let pod = Pod {
            target: self.pod,
            ports: self.ports,
            places: self.places,
            budget: Arc::new(Semaphore::new(BUDGET)),
        };
        {
            let mut speaking = pin!(async {
                match form {
                    Form::Channels { ports, .. } => channels::run(&mut inbox, outbox, &ports, pod).await,
                    Form::Tunnel | Form::Spdy => streams::run(&mut inbox, outbox, pod).await,
                }
            });
            tokio::select! {
                () = &mut speaking => {}
                () = &mut writing => {
                    // The client listens no more. What it said before still reaches the pod.
                    let _ = timeout(FAREWELL, speaking).await;
                    return;
                }
                () = self.shutdown.cancelled() => {}
            }
        }
        // What came meanwhile is read, so that closing does not reset the connection and lose the last words.
        let _ = timeout(FAREWELL, async { tokio::join!(writing, inbox.drain()) }).await;
    }
}

/// The pod of a session, for all that speak to it.
#[derive(Clone)]
struct Pod {
    target: PodTarget,
    ports: Arc<dyn PodPorts>,
    places: Places,
    /// Bytes that may be on their way to it.
    budget: Arc<Semaphore>,
}

impl Pod {
    /// A connection to a port, with its place.
    async fn connect(&self, port: u16) -> Result<(TcpStream, OwnedSemaphorePermit), String> {
        let connected = match self.places.connections.clone().try_acquire_owned() {
            Ok(place) => self.ports.connect(self.target.clone(), port).await.map(|stream| (stream, place)),
            Err(_) => Err("too many forwarded connections are open; close some".to_owned()),
        };
        let PodTarget { name, uid, .. } = &self.target;
        connected.map_err(|why| format!("error forwarding port {port} to pod {name}, uid {uid}: {why}"))
    }
}

#[cfg(test)]
mod tests;
