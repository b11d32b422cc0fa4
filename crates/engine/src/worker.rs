//! One core: a thread with a single-threaded runtime, its own listening sockets, tables and connections. Cores share
//! nothing on the accept and copy path but atomics; they learn of new plans by message.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio_util::sync::CancellationToken;

use crate::access_log;
use crate::close_reason::CloseReason;
use crate::connection;
use crate::connections::Connections;
use crate::copy::Workspace;
use crate::handover::Purpose;
use crate::limits::Limits;
use crate::metrics::{Held, Metrics};
use crate::socket::{self, ListenSocket};
use crate::status::ConnectionStatus;
use crate::table::Table;
use crate::udp;

/// How often idle connections are looked for.
const SWEEP: Duration = Duration::from_millis(500);
/// How long to wait when there are no descriptors left to accept with.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Names a set of listening sockets, one per core.
pub type SocketId = u64;

/// What the engine tells a core.
pub enum Command {
    Listen {
        id: SocketId,
        purpose: Arc<Purpose>,
        socket: ListenSocket,
        table: Arc<Table>,
    },
    Update {
        id: SocketId,
        table: Arc<Table>,
    },
    /// Take no more from these sockets. If another process has them too, sessions of datagrams still get answers.
    Stop {
        id: SocketId,
        handed_over: bool,
    },
    /// End the connections of routes whose time is over, or all.
    Drain {
        all: bool,
    },
    Connections(oneshot::Sender<Vec<ConnectionStatus>>),
    /// Copies of the listening sockets.
    Sockets(oneshot::Sender<Vec<(Arc<Purpose>, OwnedFd)>>),
    /// Answered when everything before it is done.
    Sync(oneshot::Sender<()>),
    /// End, and with it every connection that is left.
    Quit,
}

/// What all cores share.
pub struct Shared {
    pub metrics: Metrics,
    pub limits: Limits,
    pub access_log: access_log::Sender,
}

/// What the connections of one core share.
pub struct Worker {
    pub shared: Arc<Shared>,
    pub connections: Rc<Connections>,
    pub workspace: Workspace,
}

struct Listening {
    purpose: Arc<Purpose>,
    socket: Rc<dyn AsFd>,
    table: Rc<RefCell<Arc<Table>>>,
    stop: Stop,
    task: JoinHandle<()>,
}

/// Tells the task of a socket to end.
#[derive(Clone, Default)]
pub struct Stop {
    pub told: CancellationToken,
    pub handed_over: Rc<Cell<bool>>,
}

/// A core that took over from a process with more cores has several sockets of a listener.
type Listeners = HashMap<SocketId, Vec<Listening>>;

/// Runs a core until it is told to quit.
pub fn run(
    shared: Arc<Shared>,
    runtime: &tokio::runtime::Runtime,
    mut command_rx: mpsc::UnboundedReceiver<Command>,
) {
    let worker = Rc::new(Worker { shared, connections: Rc::default(), workspace: Workspace::default() });
    LocalSet::new().block_on(runtime, async move {
        let mut listening = Listeners::new();
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = command_rx.recv() => match command {
                    Some(Command::Quit) | None => return,
                    Some(command) => obey(command, &mut listening, &worker).await,
                },
                _ = sweep.tick() => worker.connections.sweep(),
            }
        }
    });
}

async fn obey(command: Command, listening: &mut Listeners, worker: &Rc<Worker>) {
    match command {
        Command::Listen { id, purpose, socket, table } => match listen(purpose, socket, table, worker) {
            Ok(new) => listening.entry(id).or_default().push(new),
            Err(error) => tracing::warn!(%error, "a core can't listen"),
        },
        Command::Update { id, table } => {
            for listening in listening.get(&id).into_iter().flatten() {
                *listening.table.borrow_mut() = Arc::clone(&table);
            }
        }
        Command::Stop { id, handed_over } => {
            for Listening { stop, task, .. } in listening.remove(&id).into_iter().flatten() {
                stop.handed_over.set(handed_over);
                stop.told.cancel();
                // A panic in the task has been reported; the socket is closed either way.
                let _ = task.await;
            }
        }
        Command::Drain { all } => worker.connections.drain(all),
        Command::Sockets(answer_tx) => {
            let copy =
                |l: &Listening| Some((Arc::clone(&l.purpose), l.socket.as_fd().try_clone_to_owned().ok()?));
            // Whoever asked may be gone.
            let _ = answer_tx.send(listening.values().flatten().filter_map(copy).collect());
        }
        Command::Connections(answer_tx) => drop(answer_tx.send(worker.connections.status())),
        Command::Sync(answer_tx) => drop(answer_tx.send(())),
        Command::Quit => {}
    }
}

fn listen(
    purpose: Arc<Purpose>,
    socket: ListenSocket,
    table: Arc<Table>,
    worker: &Rc<Worker>,
) -> std::io::Result<Listening> {
    let table = Rc::new(RefCell::new(table));
    let stop = Stop::default();
    let (shown, worker) = (Rc::clone(&table), Rc::clone(worker));
    let (socket, task): (Rc<dyn AsFd>, _) = match socket {
        ListenSocket::Tcp(socket) => {
            let socket = Rc::new(TcpListener::from_std(socket)?);
            let task = spawn_local(accept(Rc::clone(&socket), shown, stop.clone(), worker));
            (socket, task)
        }
        ListenSocket::Udp(socket) => {
            let socket = Rc::new(UdpSocket::from_std(socket)?);
            let task = spawn_local(udp::serve(Rc::clone(&socket), shown, stop.clone(), worker));
            (socket, task)
        }
    };
    Ok(Listening { purpose, socket, table, stop, task })
}

async fn accept(listener: Rc<TcpListener>, table: Rc<RefCell<Arc<Table>>>, stop: Stop, worker: Rc<Worker>) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = stop.told.cancelled() => return,
        };
        match accepted {
            Ok((client, peer)) => {
                let table = Arc::clone(&table.borrow());
                admit(client, peer, table, &worker);
            }
            Err(error) => {
                worker.shared.metrics.accept_errors.inc();
                // A client that left while it waited is no reason to pause; missing descriptors are.
                if !matches!(error.kind(), std::io::ErrorKind::ConnectionAborted) {
                    tracing::warn!(%error, "accepting failed; raise the limit of open files if there are too few");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// The leave to hold one more connection, or why not.
pub fn leave(table: &Table, worker: &Worker) -> Result<[Held; 2], CloseReason> {
    let metrics = &table.listener.metrics;
    metrics.total.inc();
    let limits = &worker.shared.limits;
    let engine_held = Held::within(&worker.shared.metrics.active, Some(limits.connections()))
        .ok_or(CloseReason::ConnectionLimit)?;
    if !limits.admit() {
        return Err(CloseReason::RateLimit);
    }
    Ok([engine_held, Held::new(&metrics.active)])
}

fn admit(client: TcpStream, peer: std::net::SocketAddr, table: Arc<Table>, worker: &Rc<Worker>) {
    match leave(&table, worker) {
        Ok(held) => {
            let worker = Rc::clone(worker);
            spawn_local(async move {
                let _held = held;
                connection::handle(client, peer, table, Rc::clone(&worker)).await;
                worker.shared.metrics.ended.inc();
            });
        }
        Err(reason) => {
            table.listener.metrics.closed.count(reason);
            socket::refuse(client);
        }
    }
}
