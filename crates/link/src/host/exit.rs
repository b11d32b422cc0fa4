//! A tunnel's way out on the host: connects streams to the service, and knows whether anybody answers there, so that
//! the container can refuse clients instead of keeping them waiting.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{HostEnd, TunnelState};
use crate::control::{Door, Listen};
use crate::counters::Tally;
use crate::frame::Frame;
use crate::mux::{Link, lock};
use crate::stream::{Socket, Stream};
use crate::tunnel::{Protocol, Tunnel, TunnelId};
use crate::{datagram, pump, socket};

/// How many targets one stream tries.
const TRIES: usize = 3;
/// The pauses between looks at a service that does not answer.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// One tunnel's way out.
pub struct Exit {
    pub tally: Arc<Tally>,
    state: Mutex<State>,
    /// The target to begin with.
    turn: AtomicUsize,
    /// The targets have changed.
    moved: Arc<Notify>,
}

struct State {
    tunnel: Arc<Tunnel>,
    /// Why nobody answers; none when somebody does.
    fault: Option<String>,
    /// Whether a task looks for somebody to answer.
    looking: bool,
}

impl Exit {
    /// A new tunnel: nobody is known to answer until the first look.
    pub fn start(end: &Arc<HostEnd>, tunnel: Tunnel) -> Arc<Self> {
        let fault = match tunnel.protocol {
            Protocol::Tcp => Some("not tried yet".to_owned()),
            // Whether anybody takes datagrams can't be known.
            Protocol::Udp => None,
        };
        let state = State { tunnel: tunnel.into(), fault, looking: false };
        let exit = Arc::new(Self {
            tally: Arc::default(),
            state: Mutex::new(state),
            turn: AtomicUsize::new(0),
            moved: Arc::default(),
        });
        exit.look(end, Duration::ZERO);
        exit
    }

    /// The tunnel is asked for in another shape; new streams follow at once.
    pub fn retarget(self: &Arc<Self>, end: &Arc<HostEnd>, tunnel: Tunnel) {
        let moved = {
            let mut state = lock(&self.state);
            let moved = state.tunnel.targets != tunnel.targets;
            if *state.tunnel != tunnel {
                state.tunnel = tunnel.into();
            }
            moved
        };
        if moved {
            self.moved.notify_one();
            self.look(end, Duration::ZERO);
        }
    }

    fn tunnel(&self) -> Arc<Tunnel> {
        lock(&self.state).tunnel.clone()
    }

    /// What the container is told.
    pub fn listen(&self) -> Listen {
        let state = lock(&self.state);
        Listen::new(&state.tunnel, state.fault.is_none() && !state.tunnel.targets.is_empty())
    }

    /// How the tunnel stands, given what the container says of its port.
    pub fn state(&self, door: Option<&Result<Door, String>>) -> TunnelState {
        let state = lock(&self.state);
        let Door { port, open } = match door {
            None => return TunnelState::Pending,
            Some(Err(error)) => return TunnelState::Failed { error: error.clone() },
            Some(Ok(door)) => *door,
        };
        match &state.fault {
            _ if state.tunnel.targets.is_empty() => TunnelState::NoTargets { port },
            Some(error) => TunnelState::Unreachable { port, error: error.clone() },
            None if open => TunnelState::Listening { port },
            // The container has still to hear that somebody answers.
            None => TunnelState::Pending,
        }
    }

    /// Has a task look until somebody answers; one is enough.
    fn look(self: &Arc<Self>, end: &Arc<HostEnd>, pause: Duration) {
        let mut state = lock(&self.state);
        if state.tunnel.protocol == Protocol::Udp || state.looking {
            return;
        }
        state.looking = true;
        drop(state);
        tokio::spawn(search(Arc::downgrade(self), Arc::downgrade(end), self.moved.clone(), pause));
    }

    fn found_fault(self: &Arc<Self>, end: &Arc<HostEnd>, error: String) {
        self.tally.failed(error.clone());
        let fresh = lock(&self.state).fault.replace(error).is_none();
        if fresh {
            end.changed();
        }
        self.look(end, FIRST_LOOK);
    }

    async fn connect(&self, tunnel: &Tunnel) -> Result<TcpStream, String> {
        let first = self.turn.fetch_add(1, Relaxed);
        let mut error = "there is no target".to_owned();
        for offset in 0..tunnel.targets.len().min(TRIES) {
            let target = tunnel.targets[(first + offset) % tunnel.targets.len()];
            match socket::connect(target, tunnel.connect_timeout()).await {
                Ok(socket) => return Ok(socket),
                Err(failed) => error = format!("{target}: {failed}"),
            }
        }
        Err(error)
    }
}

/// Looks until somebody answers or the tunnel is gone.
async fn search(exit: Weak<Exit>, end: Weak<HostEnd>, moved: Arc<Notify>, mut pause: Duration) {
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = moved.notified() => {}
        }
        let Some(this) = exit.upgrade() else { return };
        let tunnel = this.tunnel();
        let answer = if tunnel.targets.is_empty() {
            None
        } else {
            tokio::select! {
                connected = this.connect(&tunnel) => Some(connected.map(drop)),
                () = moved.notified() => {
                    // The old targets do not matter any more.
                    pause = Duration::ZERO;
                    continue;
                }
            }
        };
        let Some(end) = end.upgrade() else { return };
        let over = {
            let mut state = lock(&this.state);
            // What was tried may be history by now.
            let current = Arc::ptr_eq(&state.tunnel, &tunnel);
            match answer {
                Some(Err(error)) if current => state.fault = Some(error),
                Some(Ok(())) | None if current => {
                    state.fault = None;
                    state.looking = false;
                }
                _ => {}
            }
            !state.looking
        };
        end.changed();
        if over {
            return;
        }
        pause = (pause * 2).clamp(FIRST_LOOK, LAST_LOOK);
    }
}

/// A client of the container: connects it without keeping anybody else waiting.
pub fn open(end: &Arc<HostEnd>, link: &Arc<Link>, id: u32, tunnel: TunnelId, source: SocketAddr) {
    let exit = lock(&end.exits).get(&tunnel).cloned();
    let Some(exit) = exit else {
        link.outbox.put(&Frame::Refuse { stream: id, reason: "there is no such tunnel" });
        return;
    };
    let tunnel = exit.tunnel();
    let stream = link.insert(id, tunnel.id, exit.tally.clone(), tunnel.idle_timeout());
    exit.tally.open.fetch_add(1, Relaxed);
    tracing::debug!(tunnel = tunnel.name, %source, "a client");
    match tunnel.protocol {
        Protocol::Tcp => {
            let end = end.clone();
            tokio::spawn(async move {
                match exit.connect(&tunnel).await {
                    Ok(socket) => {
                        accept(&stream, Socket::Tcp(socket));
                        pump::run(stream).await;
                    }
                    Err(error) => {
                        refuse(&stream, &error);
                        exit.found_fault(&end, error);
                    }
                }
            });
        }
        // Here and now: the first datagram follows on its heels.
        Protocol::Udp => match connect_datagrams(&exit, &tunnel) {
            Ok(socket) => {
                accept(&stream, socket);
                tokio::spawn(datagram::answer(stream));
            }
            Err(error) => refuse(&stream, &error),
        },
    }
}

fn connect_datagrams(exit: &Exit, tunnel: &Tunnel) -> Result<Socket, String> {
    let turn = exit.turn.fetch_add(1, Relaxed);
    let count = tunnel.targets.len().max(1);
    let target = tunnel.targets.get(turn % count).ok_or("there is no target")?;
    datagram::connect(*target).map(Socket::Session).map_err(|error| format!("{target}: {error}"))
}

fn accept(stream: &Stream, socket: Socket) {
    stream.tally.opened.fetch_add(1, Relaxed);
    stream.attach(socket);
    stream.link.outbox.put(&Frame::Accept { stream: stream.id });
}

fn refuse(stream: &Stream, reason: &str) {
    stream.tally.refused.fetch_add(1, Relaxed);
    stream.tally.open.fetch_sub(1, Relaxed);
    stream.link.outbox.put(&Frame::Refuse { stream: stream.id, reason });
    stream.link.remove(stream.id);
}
