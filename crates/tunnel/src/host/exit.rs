//! A tunnel's way out on the host: knows the service's endpoints, and whether anybody answers there, so that the
//! container can refuse clients instead of keeping them waiting.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_ir::tunnel::{Tunnel, TunnelProtocol};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{HostEnd, TunnelState};
use crate::control::{Listen, Listener};
use crate::counters::Tally;

/// How many endpoints one stream tries.
const TRIES: usize = 3;
/// The pauses between probes of a service that does not answer.
const FIRST_PROBE: Duration = Duration::from_millis(100);
const LAST_PROBE: Duration = Duration::from_secs(1);

/// A tunnel as it is asked for, and where its streams go.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) tunnel: Tunnel,
    pub(super) targets: Vec<SocketAddr>,
}

impl Wanted {
    fn new(tunnel: Tunnel) -> Self {
        let addresses = |ready: bool| {
            let usable = tunnel.endpoints.iter().filter(|one| if ready { one.ready } else { one.serving });
            usable.filter_map(|endpoint| endpoint.address.socket()).collect::<Vec<_>>()
        };
        let ready = addresses(true);
        // Those that are about to go are better than nobody.
        let targets = if ready.is_empty() { addresses(false) } else { ready };
        Self { tunnel, targets }
    }
}

/// One tunnel's way out.
pub(super) struct Exit {
    pub(super) tally: Arc<Tally>,
    wanted: watch::Sender<Arc<Wanted>>,
    state: Mutex<State>,
    /// The target to begin with.
    turn: AtomicUsize,
}

struct State {
    /// Why nobody answers; none when somebody does.
    fault: Option<String>,
    /// When somebody answered last.
    answered: Option<Instant>,
    /// Whether a task probes until somebody answers.
    probing: bool,
}

impl Exit {
    /// A new tunnel: nobody is known to answer until the first probe.
    pub(super) fn start(end: &Arc<HostEnd>, tunnel: Tunnel) -> Arc<Self> {
        let fault = match tunnel.protocol {
            TunnelProtocol::Tcp => Some("not tried yet".to_owned()),
            // Whether anybody takes datagrams can't be known.
            TunnelProtocol::Udp => None,
        };
        let exit = Arc::new(Self {
            tally: Arc::default(),
            wanted: watch::channel(Arc::new(Wanted::new(tunnel))).0,
            state: Mutex::new(State { fault, answered: None, probing: false }),
            turn: AtomicUsize::new(0),
        });
        exit.probe(end, Duration::ZERO);
        exit
    }

    /// The tunnel is asked for in another shape; new streams follow at once.
    pub(super) fn change(self: &Arc<Self>, end: &Arc<HostEnd>, tunnel: Tunnel) {
        let old = self.wanted();
        if old.tunnel == tunnel {
            return;
        }
        let new = Wanted::new(tunnel);
        let moved = old.targets != new.targets;
        self.wanted.send_replace(Arc::new(new));
        if moved {
            self.probe(end, Duration::ZERO);
        }
    }

    pub(super) fn wanted(&self) -> Arc<Wanted> {
        self.wanted.borrow().clone()
    }

    /// For those who want to know when the tunnel is asked for in another shape, or no more.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Wanted>> {
        self.wanted.subscribe()
    }

    /// What the container is told.
    pub(super) fn listen(&self) -> Listen {
        let wanted = self.wanted();
        Listen::new(&wanted.tunnel, lock(&self.state).fault.is_none() && !wanted.targets.is_empty())
    }

    /// How the tunnel stands, given what the container says of its port.
    pub(super) fn state(&self, listener: Option<&Result<Listener, String>>) -> TunnelState {
        let Listener { port, open } = match listener {
            None => return TunnelState::Pending,
            Some(Err(error)) => return TunnelState::Failed { error: error.clone() },
            Some(Ok(listener)) => *listener,
        };
        match &lock(&self.state).fault {
            _ if self.wanted().targets.is_empty() => TunnelState::NoTargets { port },
            Some(error) => TunnelState::Unreachable { port, error: error.clone() },
            None if open => TunnelState::Listening { port },
            // The container has still to hear that somebody answers.
            None => TunnelState::Pending,
        }
    }

    /// The next target for datagrams.
    pub(super) fn next_target(&self, wanted: &Wanted) -> Option<SocketAddr> {
        let turn = self.turn.fetch_add(1, Relaxed);
        wanted.targets.get(turn % wanted.targets.len().max(1)).copied()
    }

    /// Connects to one of the targets.
    pub(super) async fn connect(&self, wanted: &Wanted) -> Result<TcpStream, String> {
        let targets = &wanted.targets;
        let first = self.turn.fetch_add(1, Relaxed);
        let mut error = "there is no endpoint".to_owned();
        for offset in 0..targets.len().min(TRIES) {
            let target = targets[(first + offset) % targets.len()];
            match causeway_link::connect(target, wanted.tunnel.connect_timeout.get()).await {
                Ok(socket) => {
                    lock(&self.state).answered = Some(Instant::now());
                    return Ok(socket);
                }
                Err(failed) => error = format!("{target}: {failed}"),
            }
        }
        Err(error)
    }

    /// A stream that began to connect at `began` found nobody. That says nothing if somebody has answered since.
    pub(super) fn found_fault(self: &Arc<Self>, end: &Arc<HostEnd>, began: Instant, error: String) {
        self.tally.failed(error.clone());
        let fresh = {
            let mut state = lock(&self.state);
            if state.answered.is_some_and(|answered| answered >= began) {
                return;
            }
            state.fault.replace(error).is_none()
        };
        if fresh {
            end.changed();
        }
        self.probe(end, FIRST_PROBE);
    }

    /// Has a task probe until somebody answers; one is enough.
    fn probe(self: &Arc<Self>, end: &Arc<HostEnd>, pause: Duration) {
        if self.wanted().tunnel.protocol == TunnelProtocol::Udp {
            return;
        }
        if !std::mem::replace(&mut lock(&self.state).probing, true) {
            tokio::spawn(probe(Arc::downgrade(self), Arc::downgrade(end), self.follow(), pause));
        }
    }

    /// Takes what a probe of `tried` found; says whether that is the end of probing.
    fn probed(&self, tried: &Arc<Wanted>, fault: Option<String>) -> bool {
        let mut state = lock(&self.state);
        // Nothing follows from what was tried if something else is wanted by now.
        if Arc::ptr_eq(&self.wanted.borrow(), tried) {
            state.probing = fault.is_some();
            state.fault = fault;
        }
        !state.probing
    }
}

/// Probes until somebody answers or the tunnel is gone.
async fn probe(
    exit: Weak<Exit>,
    end: Weak<HostEnd>,
    mut wanted: watch::Receiver<Arc<Wanted>>,
    mut pause: Duration,
) {
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let tried = wanted.borrow_and_update().clone();
        let Some(this) = exit.upgrade() else { return };
        let fault = if tried.targets.is_empty() {
            None
        } else {
            tokio::select! {
                connected = this.connect(&tried) => connected.err(),
                _ = wanted.changed() => {
                    // What the old targets would have said does not matter any more.
                    wanted.mark_changed();
                    continue;
                }
            }
        };
        let Some(end) = end.upgrade() else { return };
        let over = this.probed(&tried, fault);
        end.changed();
        if over {
            return;
        }
        pause = (pause * 2).clamp(FIRST_PROBE, LAST_PROBE);
    }
}

#[cfg(test)]
mod tests {
    use causeway_ir::{Endpoint, Name};
    use tokio::net::TcpListener;

    use super::*;
    use crate::host::tests::silent_end;

    fn tunnel(endpoints: Vec<Endpoint>) -> Tunnel {
        Tunnel { endpoints, ..Tunnel::new(1, Name::parse("web").expect("a name")) }
    }

    #[test]
    fn endpoints_that_are_ready_come_before_those_that_go() {
        let at = |port: u16| Endpoint::new(SocketAddr::from(([127, 0, 0, 1], port)));
        let going = |port| Endpoint { ready: false, terminating: true, ..at(port) };
        let gone = |port| Endpoint { serving: false, ..going(port) };
        let ports = |endpoints: Vec<Endpoint>| -> Vec<u16> {
            Wanted::new(tunnel(endpoints)).targets.iter().map(SocketAddr::port).collect()
        };
        assert_eq!(ports(vec![at(1), going(2), gone(3), at(4)]), [1, 4]);
        assert_eq!(ports(vec![going(2), gone(3)]), [2]);
        assert!(ports(vec![gone(3)]).is_empty());
    }

    #[tokio::test]
    async fn a_failure_that_began_before_the_last_answer_closes_nothing() {
        let (listener, end) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), silent_end());
        let before = Instant::now();
        let address = listener.local_addr().expect("an address");
        let exit = Exit::start(&end, tunnel(vec![Endpoint::new(address)]));
        exit.connect(&exit.wanted()).await.expect("somebody answers");
        let mut changed = end.changed.subscribe();
        while !exit.listen().open {
            changed.changed().await.expect("the end is there");
        }
        exit.found_fault(&end, before, "took too long".to_owned());
        assert!(exit.listen().open, "somebody has answered since");
        assert_eq!(exit.tally.snapshot().last_error.as_deref(), Some("took too long"));
        exit.found_fault(&end, Instant::now(), "refused".to_owned());
        assert!(!exit.listen().open, "nobody has answered since");
    }
}
