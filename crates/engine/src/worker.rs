//! One core: a thread with a single-threaded runtime, its own listening sockets, tables and connections. Cores share
//! nothing on the accept and copy path but atomics; they learn of new plans by message.

use std::cell::RefCell;
use std::collections::HashMap;
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
use crate::limits::Limits;
use crate::metrics::{Held, Metrics};
use crate::socket;
use crate::status::ConnectionStatus;
use crate::table::{RouteShared, Table};
use crate::udp;

/// How often idle connections are looked for.
const SWEEP: Duration = Duration::from_millis(500);
/// How long to wait when there are no descriptors left to accept with.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Names a set of listening sockets, one per core.
pub type SocketId = u64;

/// A core's own socket of a listener.
pub enum ListenSocket {
    Tcp(std::net::TcpListener),
    Udp(std::net::UdpSocket),
}

/// What the engine tells a core.
pub enum Command {
    Listen {
        id: SocketId,
        socket: ListenSocket,
        table: Arc<Table>,
    },
    Update {
        id: SocketId,
        table: Arc<Table>,
    },
    Stop {
        id: SocketId,
    },
    /// End the connections of these routes, or all.
    Drain {
        routes: Option<Vec<Arc<RouteShared>>>,
    },
    Connections(oneshot::Sender<Vec<ConnectionStatus>>),
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
    table: Rc<RefCell<Arc<Table>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Runs a core until it is told to quit.
pub fn run(
    shared: Arc<Shared>,
    runtime: &tokio::runtime::Runtime,
    mut command_rx: mpsc::UnboundedReceiver<Command>,
) {
    let worker = Rc::new(Worker { shared, connections: Rc::default(), workspace: Workspace::default() });
    LocalSet::new().block_on(runtime, async move {
        let mut listening = HashMap::new();
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

async fn obey(command: Command, listening: &mut HashMap<SocketId, Listening>, worker: &Rc<Worker>) {
    match command {
        Command::Listen { id, socket, table } => match listen(socket, table, worker) {
            Ok(new) => drop(listening.insert(id, new)),
            Err(error) => tracing::warn!(%error, "a core can't listen"),
        },
        Command::Update { id, table } => {
            if let Some(listening) = listening.get(&id) {
                *listening.table.borrow_mut() = table;
            }
        }
        Command::Stop { id } => {
            if let Some(listening) = listening.remove(&id) {
                listening.stop.cancel();
                // A panic in the task has been reported; the socket is closed either way.
                let _ = listening.task.await;
            }
        }
        Command::Drain { routes } => worker.connections.drain(routes.as_deref()),
        Command::Connections(answer_tx) => drop(answer_tx.send(worker.connections.status())),
        Command::Sync(answer_tx) => drop(answer_tx.send(())),
        Command::Quit => {}
    }
}

fn listen(socket: ListenSocket, table: Arc<Table>, worker: &Rc<Worker>) -> std::io::Result<Listening> {
    let table = Rc::new(RefCell::new(table));
    let stop = CancellationToken::new();
    let (shown, worker) = (Rc::clone(&table), Rc::clone(worker));
    let task = match socket {
        ListenSocket::Tcp(socket) => {
            spawn_local(accept(TcpListener::from_std(socket)?, shown, stop.clone(), worker))
        }
        ListenSocket::Udp(socket) => {
            spawn_local(udp::serve(UdpSocket::from_std(socket)?, shown, stop.clone(), worker))
        }
    };
    Ok(Listening { table, stop, task })
}

async fn accept(
    listener: TcpListener,
    table: Rc<RefCell<Arc<Table>>>,
    stop: CancellationToken,
    worker: Rc<Worker>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
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
    table.metrics.total.inc();
    let limits = &worker.shared.limits;
    let engine_held = Held::within(&worker.shared.metrics.active, Some(limits.connections()))
        .ok_or(CloseReason::ConnectionLimit)?;
    if !limits.admit() {
        return Err(CloseReason::RateLimit);
    }
    Ok([engine_held, Held::new(&table.metrics.active)])
}

fn admit(client: TcpStream, peer: std::net::SocketAddr, table: Arc<Table>, worker: &Rc<Worker>) {
    match leave(&table, worker) {
        Ok(held) => {
            let worker = Rc::clone(worker);
            spawn_local(async move {
                let _held = held;
                connection::handle(client, peer, table, worker).await;
            });
        }
        Err(reason) => {
            table.metrics.closed.count(reason);
            socket::refuse(client);
        }
    }
}
