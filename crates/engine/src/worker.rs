//! One core: a thread with a runtime of its own, its own listening sockets, tables and connections. Cores share
//! nothing on the accept and copy path but atomics; they learn of new plans by message.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_local};
use tokio_util::sync::CancellationToken;

use crate::access_log;
use crate::connections::Connections;
use crate::handover::Purpose;
use crate::limits::Limits;
use crate::listen::Transport;
use crate::metrics::Metrics;
use crate::spans::Spans;
use crate::status::ConnectionStatus;
use crate::table::{CurrentTable, Table};
use crate::workspace::Workspace;
use crate::{http, tcp, tls, udp};

/// How often idle connections are looked for.
const SWEEP: Duration = Duration::from_millis(500);

/// Names a set of listening sockets, one per core.
pub(crate) type SocketId = u64;

/// What the engine tells a core.
pub(crate) enum Command {
    Listen {
        id: SocketId,
        purpose: Arc<Purpose>,
        transport: Transport,
        socket: OwnedFd,
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
    /// Take no more datagrams for these purposes; the sockets stay open.
    LeaveDatagrams(Vec<Purpose>),
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
pub(crate) struct Shared {
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    pub(crate) access_log: access_log::Sender,
    /// Who takes spans of requests, if somebody does.
    pub(crate) spans: Option<Spans>,
    pub(crate) tls: tls::Shared,
    /// What clients that stay with their endpoint bring back is signed with this.
    pub(crate) sessions: Arc<http::SessionKey>,
    /// The engine ends soon: clients are told with their next answer.
    pub(crate) ends_soon: Arc<AtomicBool>,
}

/// What the connections of one core share.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) workspace: Workspace,
    /// Clients between two requests.
    pub(crate) waiting: Rc<http::Waiting>,
    /// Connections to endpoints between two requests.
    pub(crate) pool: http::Pool,
    /// Copies of requests under way.
    pub(crate) mirrors: Rc<http::Mirrors>,
    /// Tasks for requests that come in streams.
    pub(crate) hands: Rc<http::Hands<http::Job>>,
}

struct Listening {
    purpose: Arc<Purpose>,
    is_udp: bool,
    socket: Rc<dyn AsFd>,
    table: CurrentTable,
    stop: Stop,
    task: JoinHandle<()>,
}

/// Tells the task of a socket to end.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    pub(crate) told: CancellationToken,
    pub(crate) handed_over: Rc<Cell<bool>>,
}

/// A core that took over from a process with more cores has several sockets of a listener.
type Listeners = HashMap<SocketId, Vec<Listening>>;

/// Starts a core, which runs until it is told to quit.
///
/// # Errors
/// If there is no thread, or no event queue, to be had.
pub(crate) fn start(
    number: usize,
    shared: Arc<Shared>,
    command_rx: mpsc::UnboundedReceiver<Command>,
) -> io::Result<std::thread::JoinHandle<()>> {
    let (started_tx, started_rx) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name(format!("engine-{number}")).spawn(move || {
        // No signals: they are the process's business, and their pipe one more thing to wait for.
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                // Whoever started this thread waits for the word.
                let _ = started_tx.send(Ok(()));
                runtime.block_on(run(shared, command_rx));
            }
            Err(error) => drop(started_tx.send(Err(error))),
        }
    })?;
    started_rx.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))?;
    Ok(thread)
}

async fn run(shared: Arc<Shared>, mut command_rx: mpsc::UnboundedReceiver<Command>) {
    let worker = Rc::new(Worker {
        shared,
        connections: Rc::default(),
        workspace: Workspace::default(),
        waiting: Rc::default(),
        pool: http::Pool::default(),
        mirrors: Rc::default(),
        hands: Rc::default(),
    });
    let mut listening = Listeners::new();
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            command = command_rx.recv() => match command {
                Some(Command::Quit) | None => return,
                Some(command) => execute(command, &mut listening, &worker).await,
            },
            _ = sweep.tick() => {
                worker.connections.sweep();
                worker.waiting.sweep();
                worker.pool.sweep();
                worker.hands.sweep();
            }
        }
    }
}

async fn execute(command: Command, listening: &mut Listeners, worker: &Rc<Worker>) {
    match command {
        Command::Listen { id, purpose, transport, socket, table } => {
            match listen(purpose, transport, socket, table, worker) {
                Ok(new) => listening.entry(id).or_default().push(new),
                Err(error) => tracing::warn!(%error, "a core can't listen"),
            }
        }
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
            worker.waiting.wake_all();
        }
        Command::LeaveDatagrams(purposes) => {
            let left = |l: &&Listening| l.is_udp && purposes.contains(&l.purpose);
            for listening in listening.values().flatten().filter(left) {
                listening.stop.handed_over.set(true);
                listening.stop.told.cancel();
            }
        }
        Command::Drain { all } => worker.connections.drain(all),
        Command::Sockets(answer_tx) => {
            let copy =
                |l: &Listening| Some((Arc::clone(&l.purpose), l.socket.as_fd().try_clone_to_owned().ok()?));
            // The one who asked may be gone.
            let _ = answer_tx.send(listening.values().flatten().filter_map(copy).collect());
        }
        Command::Connections(answer_tx) => drop(answer_tx.send(worker.connections.status())),
        Command::Sync(answer_tx) => drop(answer_tx.send(())),
        Command::Quit => {}
    }
}

fn listen(
    purpose: Arc<Purpose>,
    transport: Transport,
    socket: OwnedFd,
    table: Arc<Table>,
    worker: &Rc<Worker>,
) -> io::Result<Listening> {
    let table: CurrentTable = Rc::new(RefCell::new(table));
    let stop = Stop::default();
    let (shown, worker) = (Rc::clone(&table), Rc::clone(worker));
    let (socket, task): (Rc<dyn AsFd>, _) = match transport {
        Transport::Tcp => {
            let socket = Rc::new(tcp::Listening::new(socket)?);
            let task = spawn_local(tcp::serve(Rc::clone(&socket), shown, stop.clone(), worker));
            (socket, task)
        }
        Transport::Udp => {
            let socket = Rc::new(UdpSocket::from_std(socket.into())?);
            let task = spawn_local(udp::serve(Rc::clone(&socket), shown, stop.clone(), worker));
            (socket, task)
        }
    };
    Ok(Listening { purpose, is_udp: transport == Transport::Udp, socket, table, stop, task })
}
